"""Builds sample data once on each node, for any number of ranks."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.components import component
from flagperf.contract.sample_data import MARKER, is_sample_data, is_sample_folder

log = logging.getLogger(__name__)


def ensure_sample_data(config: Mapping[str, Any]) -> None:
    """Build the sample data of the case where `data_dir` is the folder for it. A user's folder is never filled."""
    if is_sample_folder(config):
        build_sample_data(config, Path(config["data_dir"]))


def build_sample_data(config: Mapping[str, Any], folder: Path) -> None:
    """Write the sample data of the case into `folder`, unless the folder holds it.

    The first process to get the lock writes into a temporary folder, which is renamed when it is complete; the others
    wait for the lock and then find the data.
    """
    if is_sample_data(str(folder)):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_sample_data(str(folder)):
            return
        log.info("writing sample data to %s", folder)
        partial = Path(f"{folder}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # left by a writer that was killed
        partial.mkdir()
        write_sample_data(config, partial)
        os.rename(partial, folder)  # noqa: PTH104


def write_sample_data(config: Mapping[str, Any], folder: Path) -> None:
    """Write the sample data of the case into an empty folder, and its marker."""
    component(config["data"], "sample", str(folder))
    marker = {"case": config["case"], "sample": config["data"]["sample"]}
    Path(folder, MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
