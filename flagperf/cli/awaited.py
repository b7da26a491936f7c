"""The queue state of a submitted run that has not begun, as this machine's scheduler tells it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flagperf.config.schema.schedulers import source_name
from flagperf.contract.regular import read_yaml
from flagperf.plan.values import CONFIG
from flagperf.schedulers.interface import scheduler


def queue_state(folder: Path) -> str:
    """What the scheduler says of the run's job, as "is queued: …"; nothing where it cannot be asked.

    Raises:
        NeverBegan: it is over, or waits in vain.
        ConfigError: the folder does not say which job it is.
    """
    path = next(folder.glob(f"*/{CONFIG}"))  # a run that is submitted has the configurations of its jobs
    return asyncio.run(scheduler(source_name(read_yaml(path)["cluster"])).standing(folder))
