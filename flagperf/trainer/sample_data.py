"""Sample data: built once on a node, whatever the number of ranks, by the writer that the case names."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.trainer.components import component

log = logging.getLogger(__name__)

MARKER = ".flagperf-sample.json"  # its presence makes a folder sample data


def is_sample_data(folder: str | None) -> bool:
    """Whether the folder holds generated data."""
    return folder is not None and Path(folder, MARKER).is_file()


def ensure_sample_data(config: Mapping[str, Any]) -> None:
    """Build the sample data of the case where `data_dir` is the place for it.

    That place is told by its name, <case>-<digest>, which the launcher gives it: the folder above it may have another
    path in a container. Data that a user named is never generated.
    """
    if config["data_dir"] is None or not (config.get("data") or {}).get("sample"):
        return
    folder = Path(config["data_dir"])
    if re.fullmatch(re.escape(config["case"]) + "-[0-9a-f]{12}", folder.name):
        build_sample_data(config, folder)


def build_sample_data(config: Mapping[str, Any], folder: Path) -> None:
    """Write the sample data of the case into `folder` unless it is there.

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
    """Write the sample data of the case into an empty folder, and the marker that says so."""
    component(config["data"], "sample", str(folder))
    marker = {"case": config["case"], "sample": config["data"]["sample"]}
    Path(folder, MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
