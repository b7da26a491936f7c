"""Writes a golden curve of your own from runs, such as of the full size on devices that you trust.

python -m cases.golden_of_runs FILE REFERENCE RUN…

The arguments are folders of runs with one job each, whose first round counts. The curve is that of REFERENCE. Its band
comes from the other runs: of the same training with other kernels, on another product, or in another precision.
docs/numerics.md explains curves and bands.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cases.golden import Dumper
from cases.golden_bands import FACTOR, as_lists, band
from flagperf.compare.golden import ALWAYS, computed, identity_of
from flagperf.config.compose import compose
from flagperf.contract.golden import Curve
from flagperf.contract.leaves import differing
from flagperf.errors import ConfigError
from flagperf.results.rank_log import first_rank_log

NAME = "run"  # of the curve
WORD = re.compile(r"[A-Za-z]\w*")
LOGGED = tuple(word.partition("=")[0] for word in ALWAYS)


@dataclass(frozen=True)
class Trained:
    """The first round of a run."""

    folder: Path
    config: Mapping[str, Any]
    curve: Curve

    @classmethod
    def of(cls, folder: Path) -> Trained:
        """Read the round.

        Raises:
            ConfigError: the folder has another number of jobs, or the round did not log each step.
        """
        rounds = sorted(folder.glob("*/round1"))
        log = first_rank_log(rounds[0]) if len(rounds) == 1 else None
        submitted = log.all("SUBMIT_INFO") if log else ()
        if log is None or not submitted:
            raise ConfigError("this is no folder of a run with one job", where=str(folder), given=f"{len(rounds)} jobs")
        config, curve = submitted[-1].value["config"], Curve.of(log.events)
        if len(curve.loss) != config["max_steps"]:
            problem, given = "a curve needs the loss of each step", f"{len(curve.loss)} of {config['max_steps']} steps"
            advice = "run it with log_freq=1 target=null division=open, until max_steps"
            raise ConfigError(problem, where=str(folder), key="log_freq", given=given, advice=advice)
        return cls(folder, config, curve)


def text(reference: Trained, others: Sequence[Trained]) -> str:
    """The content of the file. Raises ConfigError where a run computes something else than the reference."""
    for run in others:
        check_same(reference, run)
    curve = {
        "overrides": overrides(reference.config),
        "identity": identity_of(reference.config),
        **as_lists(reference.curve, 9),
        "bands": bands(reference, others),
    }
    head = {name: reference.config[name] for name in ("case", "revision")}
    content = {**head, "factor": FACTOR, "curves": {NAME: curve}}
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, width=84)


def check_same(reference: Trained, run: Trained) -> None:
    """Refuse a run that computes something else than the reference."""
    expected, settings = computed(reference.config), computed(run.config)
    for key in differing(expected, settings):
        problem = "this run computes something else than the reference"
        given, allowed = settings.get(key), f"{expected.get(key)}, as {reference.folder}"
        raise ConfigError(problem, where=str(run.folder), key=key, given=given, allowed=allowed)


def bands(reference: Trained, others: Sequence[Trained]) -> dict[str, Any]:
    """Precision → how far a correct training may lie from the curve. Runs as precise as the reference count always."""
    made, usual = {}, reference.config["precision"]
    for precision in dict.fromkeys(run.config["precision"] for run in others):
        counting = [run.curve for run in others if run.config["precision"] in (usual, precision)]
        made[precision] = as_lists(band(reference.curve, counting), 3)
    return made


def overrides(config: Mapping[str, Any]) -> list[str]:
    """What a training sets to compute what a configuration says, and to log each step.

    Raises:
        ConfigError: the case of today computes something else with the same settings.
    """
    words = [f"{key}={_value(config[key])}" for key in LOGGED]
    words += [f"data_dir={_value(config['data_dir'])}"] * (config["size"] == "full")
    settings, model = computed(config), f"model={config['case']}"

    def other_keys() -> dict[str, Any]:
        return {key: settings.get(key) for key in differing(computed(compose([model, *words]).config), settings)}

    words += [f"{key}={_value(value)}" for key, value in other_keys().items() if key in config]
    words += [f"{key}={_value(value)}" for key, value in other_keys().items() if key in settings]  # not from the first
    for key, value in other_keys().items():
        raise ConfigError("the current case computes something else than this run", key=key, given=value)
    return words


def _value(value: Any) -> str:
    """A value in the grammar of the command line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return value if isinstance(value, str) and WORD.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("run", type=Path, nargs="+")
    given = parser.parse_args()
    try:
        given.file.write_text(text(Trained.of(given.reference), [Trained.of(run) for run in given.run]), "utf-8")
    except ConfigError as error:
        parser.exit(2, f"{error}\n")
    print(given.file)


if __name__ == "__main__":
    main()
