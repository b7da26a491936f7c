"""flagperf watch: show the progress of a run that another terminal started

usage: flagperf watch RUN_DIR

flagperf watch ends when the run ends. Where the output is no terminal, it prints the state of the run once.

words:
  RUN_DIR  a folder that a run made, such as result/run20260101-120000; flagperf list runs shows them

examples:
  flagperf watch result/run20260101-120000

exit codes: 0, 2, 3, 130
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.text import Text

from flagperf.cli.awaited import queue_state
from flagperf.cli.help import usage
from flagperf.errors import ConfigError
from flagperf.report.watching import snapshot
from flagperf.run.console import Terminal
from flagperf.run.folder import is_awaited, is_held
from flagperf.user import user_path

INTERVAL = 1.0  # seconds between two reads of the folder
LOOK = 10.0  # seconds between two queries of the queue, for a run that has not begun


def main(options: argparse.Namespace) -> int:
    """Show the state of the run every second until its end; without a terminal, print it once.

    Raises:
        NeverBegan: the run was submitted, and its job is over, or its conditions can never be satisfied.
    """
    if len(options.arguments) != 1:
        given = " ".join(options.arguments) or None
        raise ConfigError("watch takes one run folder", given=given, advice=usage("watch"))
    folder, terminal = user_path(options.arguments[0]), Terminal()
    queue = _Queue(folder)
    if not terminal.is_terminal:
        for line in snapshot(folder, queue.queue_state()):
            terminal.print(Text(line), soft_wrap=True)
        return 0
    with Live(_picture(folder, queue), console=terminal, auto_refresh=False) as live:
        while is_held(folder) or is_awaited(folder):
            time.sleep(INTERVAL)
            live.update(_picture(folder, queue), refresh=True)
    return 0


class _Queue:
    """The queue state of a run that has not begun. The scheduler is asked every LOOK seconds at most."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._asked, self._state = folder, float("-inf"), ""

    def queue_state(self) -> str:
        if is_awaited(self._folder) and time.monotonic() - self._asked >= LOOK:
            self._asked, self._state = time.monotonic(), queue_state(self._folder)
        return self._state


def _picture(folder: Path, queue: _Queue) -> Group:
    lines = snapshot(folder, queue.queue_state())
    return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))
