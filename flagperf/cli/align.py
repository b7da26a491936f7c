"""flagperf align: does a device compute what the case computes? Checked against the case's golden curves

usage: flagperf align model=NAME [vendor=NAME hardware=NAME OVERRIDES…] [golden=FILE] [reference=cpu] [find=true]

The reduced case trains 20 steps on the device, with the seed and data of the curve. The verdict says: inside the band
of the precision, or outside from step N on. docs/numerics.md explains curves and bands. The run folder has align.json,
which runs with require_alignment=true need.

words:
  model=NAME        the case
  vendor=NAME hardware=NAME
                    the device; this machine's CPU without them
  precision=fp32|tf32|amp_bf16
                    whose band counts; fp32 without it. amp_fp16 has no band
  golden=FILE       curves of yours, in the form of conf/golden/
  reference=cpu     the curve is trained now, on the CPU of the same host, with the bands of the file: for versions of
                    Python's packages that draw other first weights than those of the curve. Leaves no align.json
  find=true         in place of the verdict: the first module that computes otherwise than the CPU, and the operator

options: --config-dir

examples:
  flagperf align model=glm
  flagperf align model=glm vendor=nvidia hardware=A100
  flagperf align model=resnet50 vendor=nvidia hardware=A100 precision=tf32
  flagperf align model=vit vendor=nvidia hardware=A100 reference=cpu
  flagperf align model=glm vendor=nvidia hardware=A100 find=true

exit codes: 0, 2, 3, 5, 7
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

from flagperf.cli.words import need
from flagperf.compare.gate import EXIT_CODES
from flagperf.compare.golden import check_overrides, computed, golden_file, identity_of
from flagperf.compare.golden_page import page
from flagperf.config.compose import compose
from flagperf.config.files.search_path import search_path
from flagperf.config.schema.values import JobConfig
from flagperf.contract.alignment import CURVES, RECORD, log_of, recomputed
from flagperf.contract.golden import Check, Curve, Golden, read
from flagperf.contract.leaves import differing
from flagperf.contract.regular import write_atomically
from flagperf.errors import ConfigError
from flagperf.results.rank_log import find_logs
from flagperf.run.command_file import key_of
from flagperf.run.ranks_alone import ask_ranks
from flagperf.user import user_path

GOLDEN, FIND, REFERENCE, DATA = "golden=", "find=true", "reference=cpu", "data_dir="
DEVICE = ("vendor=", "hardware=", "precision=")
HOST = ("vendor=cpu", "hardware=cpu", "runtime=process", "precision=fp32")  # where the curve of a reference is trained
HINT = "outside from the first step on: other versions of packages may draw other first weights; reference=cpu tells"


def main(options: argparse.Namespace) -> int:
    """Train for each curve of the case, print a verdict a curve, and plot them; 7 where a training is outside."""
    words = [word for word in options.arguments if not word.startswith(GOLDEN) and word not in (FIND, REFERENCE)]
    files = [word[len(GOLDEN) :] for word in options.arguments if word.startswith(GOLDEN)]
    keys = {key_of(word) for word in words}
    need("align", ("model",), keys)
    words += ["require_alignment=false", "alignment=null", *([] if "precision" in keys else ["precision=fp32"])]
    case = compose([next(word for word in words if key_of(word) == "model"), "dry_run=true"], options.config_dir)
    path = user_path(files[0]) if files else shipped_curves(case, options.config_dir)
    curves = read(path)
    for golden in curves:
        check_overrides(golden)
    jobs = [job_of(golden, words, options.config_dir) for golden in curves]
    if FIND in options.arguments:
        return find(compose([*words, *curves[-1].overrides, "locate=true"], options.config_dir))
    if jobs[0].dry_run:
        for job, golden in zip(jobs, curves, strict=True):
            print(f"{job.name}, {golden.name}: {' '.join(golden.overrides)}")
        return 0
    folder = user_path(jobs[0].result_dir).absolute() / (jobs[0].run_name or f"align{datetime.now():%Y%m%d-%H%M%S}")
    if REFERENCE not in options.arguments:
        checks = align(jobs, curves, folder)
        write_record(folder, path)
        if any(check.first_outside is not None and check.first_outside.step == 1 for check in checks):
            print(HINT, file=sys.stderr)
    else:
        on_host = [*(word for word in words if not word.startswith(DEVICE)), *HOST]
        curves = [
            replace(golden, curve=curve_of_host(golden, job_of(golden, on_host, options.config_dir), folder))
            for golden in curves
        ]
        checks = align(jobs, curves, folder)
    return EXIT_CODES["passed" if all(check.inside for check in checks) else "failed"]


def shipped_curves(case: JobConfig, folders: Sequence[Path]) -> Path:
    """The file of the golden curves of a case.

    Raises:
        ConfigError: the case has none.
    """
    if case.framework.name != "pytorch":
        problem, given = "only cases of PyTorch have golden curves", f"{case.framework.name}/{case.case}"
        raise ConfigError(problem, key="model", given=given, advice=f"model={case.case} checks the device with PyTorch")
    return golden_file(case.case, search_path(folders))


def curve_of_host(golden: Golden, job: JobConfig, folder: Path) -> Curve:
    """The curve that a job on the CPU trains in a folder of the run."""
    _, logs = ask_ranks(replace(job, result_dir=str(folder), run_name=f"{golden.name}-cpu"), "align")
    return Curve.of(logs[0].events)


def align(jobs: Sequence[JobConfig], curves: Sequence[Golden], folder: Path) -> list[Check]:
    """Train each job in a folder of the run, print its verdict, and keep its log and a page beside the run's record."""
    checks = []
    for job, golden in zip(jobs, curves, strict=True):
        trained, logs = ask_ranks(replace(job, result_dir=str(folder), run_name=golden.name), "align")
        checks.append(Check(golden, job.identity.precision, Curve.of(logs[0].events)))
        print(f"{golden.name + ':':9} {checks[-1].verdict}")
        print(write_atomically(trained / "align.html", page(job.name, checks[-1])))
        copyfile(find_logs(trained / job.name / "round1")[0][-1], log_of(folder, golden.name))
    return checks


def write_record(folder: Path, file: Path) -> None:
    """Write the record of all checks, which is made of copies beside it: of the file of the curves, and of the logs."""
    copyfile(file, folder / CURVES)
    print(write_atomically(folder / RECORD, json.dumps(asdict(recomputed(folder)), indent=1) + "\n"))


def job_of(golden: Golden, words: Sequence[str], folders: Sequence[Path]) -> JobConfig:
    """The job that trains as the curve did. Its data may lie in another folder of the same name.

    Raises:
        ConfigError: the job, or the case of today, computes something else, or there is no band for the precision.
    """
    keys = {key_of(word) for word in words}
    sets = [word for word in golden.overrides if not (word.startswith(DATA) and "data_dir" in keys)]
    job = compose([*words, *sets], folders)
    model = next(word for word in words if key_of(word) == "model")
    reference = compose([model, *golden.overrides], folders)
    if (job.case, identity_of(reference.config)) != (golden.case, golden.identity):
        problem = "the case has changed since its golden curve was written"
        advice = f"python -m cases.golden {job.case} writes the curve again"
        raise ConfigError(problem, key="model", given=job.case, allowed=f"{golden.case} as it was", advice=advice)
    settings, expected = computed(job.config), computed(reference.config)
    for key in differing(expected, settings):
        problem = "this training would compute something else than the golden curve"
        advice = f"leave {key} as it is"
        raise ConfigError(problem, key=key, given=settings.get(key), allowed=expected.get(key), advice=advice)
    if (precision := job.identity.precision) not in golden.bands:
        problem = "the golden curve has no band for this precision"
        raise ConfigError(problem, key="precision", given=precision, allowed=", ".join(golden.bands))
    return job


def find(job: JobConfig) -> int:
    """Search the device of a job for the first difference from the CPU; print it, and write a script that shows it."""
    folder, logs = ask_ranks(job, "find")
    (located,) = (event.value for event in logs[0].all("LOCATED"))
    if not (located["compared"] or located["operator"]):
        print(f"no difference above {located['limit']:g} in outputs, gradients and updates of a step")
        return EXIT_CODES["passed"]
    for line in description(located):
        print(line)
    if located["operator"]:
        print(write_atomically(folder / "reproduce.py", located["operator"]["script"]))
    return EXIT_CODES["failed"]


def description(located: Mapping[str, Any]) -> Iterator[str]:
    """The first difference, in lines."""
    if located["compared"]:
        numbers = f"relative error {located['error']:.3g}, cosine {located['cosine']:.6g}"
        yield f"module:    {located['module'] or 'the network'}, {located['compared']}: {numbers}"
    if operator := located["operator"]:
        inputs = ", ".join(f"{kind}{shape}" for kind, shape in zip(operator["types"], operator["shapes"], strict=True))
        yield f"operator:  {operator['operator']} of {inputs}: relative error {operator['error']:.3g}"
        yield f"values:    {operator['host']:.9g} on the CPU, {operator['there']:.9g} on {located['device']}"
