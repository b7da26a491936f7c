"""Writes reference points of cases: samples that correct trainings need to the target (docs/numerics.md).

python -m cases.convergence CASE …                    writes conf/convergence/<case>.yaml
python -m cases.convergence --config-dir DIR CASE …   likewise of your own cases, below DIR

The tiny size trains on this CPU with ten seeds and two batch sizes. A case that follows a benchmark of MLPerf also gets
MLPerf's points of the full size, from the installed package mlperf-logging. Run the program again when a case changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

import flagperf
from cases.golden import Dumper
from cases.golden_trainings import REFERENCE, forked, prepare, versions
from cases.statements import write_files
from flagperf.compare.golden import identity_of
from flagperf.config.compose import compose
from flagperf.contract.perflog import Event
from flagperf.contract.target import Target
from flagperf.results.convergence import batch_of

SEEDS = range(10)
FACTORS = (1, 2)  # of the batch size of the case
# Cases with the data, the target and the recipe of MLPerf. Other cases with a log for MLPerf have FlagPerf's targets.
FOLLOW_MLPERF = ("llama3_8b", "gpt_oss_20b", "llama2_70b_lora", "flux1")
SAMPLES, EPOCHS = "samples to converge", "Epochs to converge"  # both count samples in the files of these cases
HEADER = """\
# python -m cases.convergence {case}
#
# Samples of the whole job that correct trainings of {case} need to the target, a training a seed.
# Written by this command; docs/numerics.md explains it.
"""


def text(case: str, folders: Sequence[Path] = ()) -> str:
    """The content of a case's file.

    Raises:
        RuntimeError: a training misses the target, or the seeds show no spread.
    """
    tiny = of_size(case, "tiny", folders)
    sizes = {"full": of_mlperf(of_size(case, "full", folders))} if case in FOLLOW_MLPERF else {}
    content = {"case": case, "revision": tiny["revision"], "sizes": {"tiny": measured(case, tiny, folders), **sizes}}
    return HEADER.format(case=case) + yaml.dump(content, Dumper=Dumper, sort_keys=False, width=84)


def of_size(case: str, size: str, folders: Sequence[Path]) -> dict[str, Any]:
    """The configuration of a case in a size."""
    return compose([f"model={case}", f"size={size}", "dry_run=true"], list(folders)).config


def measured(case: str, tiny: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """The points of the tiny size, from trainings on this CPU."""
    prepare(tiny)
    key = "global_batch_size" if tiny["global_batch_size"] else "train_batch_size"
    points = []
    for factor in FACTORS:
        overrides = ["size=tiny", "division=open", f"{key}={factor * tiny[key]}"]
        config = compose([f"model={case}", *overrides], list(folders)).config
        samples = [samples_to_target(config, seed) for seed in SEEDS]
        if len(set(samples)) == 1:  # MLPerf's test would call each job too fast that needs one evaluation less
            raise RuntimeError(f"{case}, {overrides[-1]}: each seed needed {samples[0]} samples: too few evaluations")
        point = {"batch": batch_of(config), "overrides": overrides, "identity": identity_of(config), "samples": samples}
        points.append(point)
    return {
        "target": dict(tiny["target"]),
        "rounds": len(SEEDS) // 2,  # MLPerf asks for twice as many trainings of a reference as rounds of a submission
        "source": f"python -m cases.convergence, seeds {SEEDS[0]} to {SEEDS[-1]} in fp32 on a CPU",
        "software": {"flagperf": flagperf.__version__, **versions()},
        "points": points,
    }


def samples_to_target(config: Mapping[str, Any], seed: int) -> int:
    """Samples that a training needs. Raises RuntimeError where it fails or misses the target."""
    answer = forked({**config, "seed": seed}, REFERENCE, last_evaluation)
    if not Target(**config["target"]).reached(answer):
        raise RuntimeError(f"{config['case']}, seed {seed}: the training did not reach the target: {answer}")
    print(f"{config['case']}, seed {seed}: {answer}", file=sys.stderr, flush=True)
    return int(answer["samples"])


def last_evaluation(events: Sequence[Event]) -> Mapping[str, Any]:
    """The evaluation that ended a training."""
    return [event.value for event in events if event.event == "EVALUATE"][-1]


def of_mlperf(full: Mapping[str, Any]) -> dict[str, Any]:
    """MLPerf's points of the benchmark that a case follows."""
    from mlperf_logging.rcp_checker import rcp_checker

    benchmark, ruleset = full["mlperf"]["benchmark"], full["mlperf"]["ruleset"]
    file = f"training_{ruleset}/rcps_{benchmark}.json"
    content = json.loads((Path(rcp_checker.__file__).parent / file).read_text(encoding="utf-8"))
    return {
        "target": dict(full["target"]),
        "rounds": rcp_checker.submission_runs["training"][benchmark],
        "source": f"MLPerf, {file} of mlperf-logging {metadata.version('mlperf-logging')}",
        "points": list(_points(content)),
    }


def _points(content: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for point in content.values():
        yield {"batch": point["BS"], "samples": list(point.get(SAMPLES) or point[EPOCHS])}


if __name__ == "__main__":
    write_files(__doc__, "convergence", text)
