"""Sample data: which folder is for it, and how it is built there, once on a node whatever the number of ranks.

Two questions are asked of a data_dir, and each is answered here, for the launcher and the ranks alike:

- Is it the place for this training's sample data, which flagperf may fill? `is_sample` tells by the folder's name.
- Does it hold sample data, wherever it lies? `is_sample_data` looks for the marker that is written with the data. A
  rank asks before it trains, and its answer is what a finished result reports.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.trainer.components import component

log = logging.getLogger(__name__)

MARKER = ".flagperf-sample.json"  # its presence makes a folder sample data


def sample_name(case: str, sample: Mapping[str, Any]) -> str:
    """Name of the folder of a case's sample data: <case>-<digest>. It changes with what the writer is asked for."""
    digest = hashlib.sha256(json.dumps(sample, sort_keys=True).encode()).hexdigest()[:12]
    return f"{case}-{digest}"


def is_sample(config: Mapping[str, Any]) -> bool:
    """Whether a configuration's data_dir is the place for its sample data.

    Only the name counts: on another host or in a container the folder above it may be another one.
    """
    folder, sample = config["data_dir"], (config.get("data") or {}).get("sample")
    if not folder or not sample:
        return False
    return Path(folder).name == sample_name(config["case"], sample)


def is_sample_data(folder: str | None) -> bool:
    """Whether the folder holds generated data."""
    return folder is not None and Path(folder, MARKER).is_file()


def ensure_sample_data(config: Mapping[str, Any]) -> None:
    """Build the sample data of the case where `data_dir` is the place for it. A user's folder is never filled."""
    if is_sample(config):
        build_sample_data(config, Path(config["data_dir"]))


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
