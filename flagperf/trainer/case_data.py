"""A case's own code for its data, in the training environment; for `flagperf data`:

    python -m flagperf.trainer.case_data config.yaml sample FOLDER
    python -m flagperf.trainer.case_data config.yaml prepare SOURCE FOLDER
    python -m flagperf.trainer.case_data config.yaml read

Progress goes to standard error. Exit status 2 where the error says what the user has to mend.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from flagperf.errors import FlagperfError
from flagperf.trainer.components import component
from flagperf.trainer.sample_data import write_sample_data


def main(config_file: str, what: str, *paths: str) -> None:
    """Do what the command line says."""
    config = yaml.safe_load(Path(config_file).read_text(encoding="utf-8"))
    logging.basicConfig(level=config["log_level"].upper(), format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        ACTIONS[what](config, *map(Path, paths))
    except FlagperfError as error:
        print(f"flagperf: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def prepare(config: Mapping[str, Any], source: Path, folder: Path) -> None:
    """Convert a source into the files that the case reads."""
    component(config["data"], "prepare", source, folder)


def read(config: Mapping[str, Any]) -> None:
    """Open the data sets as a training does, and read the first sample of each."""
    from flagperf.trainer.pytorch.data import Seeded  # imports torch, which writers need not
    from flagperf.trainer.pytorch.parts import check_classes

    datasets = {key: component(config, key) for key in ("train_data", "eval_data")}
    for key, dataset in datasets.items():
        if dataset is None:
            continue
        seeded = Seeded(dataset)
        sample = seeded.collate(seeded.__getitems__((0, [0])))
        if isinstance(sample, FlagperfError):
            raise sample
        print(f"{len(dataset):>12,}  samples of {key}; the first one can be read")
    check_classes(datasets["train_data"], datasets["eval_data"])


ACTIONS: dict[str, Callable[..., None]] = {"sample": write_sample_data, "prepare": prepare, "read": read}


if __name__ == "__main__":
    main(*sys.argv[1:])
