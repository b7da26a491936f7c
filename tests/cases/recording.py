"""A training in fp32 of two ranks, to which others of the same case are compared: made once for all workers."""

from __future__ import annotations

import fcntl
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from toy import fork_ranks, train

# Ten steps, a checkpoint after the seventh, an evaluation at the end.
RECORDED: dict[str, Any] = {
    "nproc": 2,
    "max_steps": 10,
    "log_freq": 1,
    "checkpoint_freq": 7,
    "initial_evaluation": False,
    "eval_interval_steps": 10,
    "eval_start_samples": 0,
}


def record(configuration: dict[str, Any], folder: Path) -> None:
    """Train unless another worker did: the folder has rank0/log0, rank1/log0 and checkpoint then."""
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a training that failed
            with mock.patch.dict(os.environ, FLAGPERF_CHECKPOINT_DIR=str(folder / "checkpoint")):
                fork_ranks(partial(train, configuration | RECORDED), folder)
            (folder / "done").touch()
