"""Reads sys_info.log of a node: facts about its host, name → text."""

from __future__ import annotations

from pathlib import Path

from flagperf.contract.perflog import LATEST
from flagperf.contract.regular import log_text

CLOCK = "clock_offset"  # line of sys_info.log: seconds that the host's clock is ahead of the launcher's
FILE = "sys_info.log"


def read_sys_info(node_folder: Path) -> dict[str, str]:
    """Name → text of the lines of a node's sys_info.log; empty where there is no log."""
    path = node_folder / FILE
    text = log_text(path)
    lines = (line.partition(": ") for line in text.partition("\n\n")[0].splitlines())  # then a tool's own output
    return {name: value for name, _, value in lines}


def clock_offset(node_folder: Path) -> float:
    """Seconds that the node's clock was ahead of the launcher's, to correct the times in its logs. 0: not known."""
    try:
        offset = float(read_sys_info(node_folder).get(CLOCK, 0.0))
    except ValueError:
        return 0.0
    return offset if abs(offset) <= LATEST / 1000 else 0.0
