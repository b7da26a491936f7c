"""Runs the case's own code for its data; `flagperf data` starts this module in the training environment.

    python -m flagperf.trainer.data.case_data config.yaml sample FOLDER
    python -m flagperf.trainer.data.case_data config.yaml prepare SOURCE FOLDER
    python -m flagperf.trainer.data.case_data config.yaml read

Progress goes to standard error. The exit status is 2 where the user has to change something, as the message says.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.components import component
from flagperf.contract.regular import read_yaml
from flagperf.errors import FlagperfError
from flagperf.trainer.data.datasets import read_first_samples
from flagperf.trainer.data.sample_data import write_sample_data
from flagperf.trainer.start.framework import import_framework


def main(config_file: str, action: str, *paths: str) -> None:
    """Run one of ACTIONS with its paths. Exits with the status of a FlagperfError."""
    config = read_yaml(Path(config_file))
    logging.basicConfig(level=config["log_level"].upper(), format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        ACTIONS[action](config, *map(Path, paths))
    except FlagperfError as error:
        print(f"flagperf: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def prepare(config: Mapping[str, Any], source: Path, folder: Path) -> None:
    """Convert a source into the files that the case reads."""
    component(config["data"], "prepare", source, folder)


def read(config: Mapping[str, Any]) -> None:
    """Open the data sets as a training does, and read the first sample of each."""
    read_first_samples(config, import_framework(config).read_first)


ACTIONS: dict[str, Callable[..., None]] = {"sample": write_sample_data, "prepare": prepare, "read": read}


if __name__ == "__main__":
    main(*sys.argv[1:])
