"""What the benchmarks share: the bare torchrun script as a command, and the data that both sides read."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

from flagperf.config.compose import compose_jobs

FLAGPERF = (sys.executable, "-c", "from flagperf.cli.main import main; main()")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
BARE = Path(__file__).parent / "bare" / "resnet50_tiny.py"


@functools.cache
def config() -> dict[str, Any]:
    """The resolved configuration of resnet50 (tiny)."""
    (job,) = compose_jobs([], multirun=False, config_dirs=[])
    return dict(job.config)


def sample_data() -> Path:
    """The sample data of resnet50 (tiny); written by a run of one step where it is not there yet."""
    import subprocess
    import tempfile

    folder = Path(config()["data_dir"])
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as results:
            subprocess.run([*FLAGPERF, "max_steps=1", f"result_dir={results}"], check=True)
    return folder


def bare_environment() -> dict[str, str]:
    """The environment of both sides: this process's, with what the vendor's file sets for the ranks."""
    return {**os.environ, **config()["vendor"]["environment"]}


def bare_command(*, steps: int, warmup_steps: int, ranks: int = 2) -> list[str]:
    """The bare script for torchrun, on the sample data and with the batch size of resnet50 (tiny)."""
    batch_size = config()["train_batch_size"]
    arguments = [str(sample_data()), str(batch_size), str(steps), str(warmup_steps)]
    launch = [
        *TORCHRUN,
        "--nnodes",
        "1",
        "--nproc-per-node",
        str(ranks),
        "--master-addr",
        "127.0.0.1",
        "--master-port",
        "29511",
    ]
    return [*launch, str(BARE), *arguments]


def last_json(output: str) -> dict[str, Any]:
    """The last line of an output that is JSON."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1]))
