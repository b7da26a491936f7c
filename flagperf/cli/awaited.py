"""The queue state of a submitted run that has not begun, from this machine's scheduler."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flagperf.config.schema.schedulers import source_name
from flagperf.contract.regular import read_mapping
from flagperf.plan.values import CONFIG
from flagperf.schedulers.interface import scheduler


def queue_state(folder: Path) -> str:
    """The state of the run's job in the queue, such as "is queued: …"; "" where the scheduler cannot be asked.

    Raises:
        NeverBegan: the job is over, or its conditions can never be satisfied.
        ConfigError: the folder does not name the job.
    """
    path = next(folder.glob(f"*/{CONFIG}"))  # a run that is submitted has the configurations of its jobs
    return asyncio.run(scheduler(source_name(read_mapping(path).get("cluster"))).queue_state(folder))
