"""`flagperf watch RUN_DIR`: what goes on in a run of another terminal, until it ends."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.text import Text

from flagperf.cli.verbs import usage
from flagperf.config.user_path import user_path
from flagperf.errors import ConfigError
from flagperf.report.watching import snapshot
from flagperf.run.console import Terminal
from flagperf.run.folder import is_awaited, is_held

INTERVAL = 1.0  # seconds between two looks


def main(options: argparse.Namespace) -> int:
    """Renew the picture every second while the run goes on; where nobody looks at a terminal, print it once."""
    if len(options.arguments) != 1:
        given = " ".join(options.arguments) or None
        raise ConfigError("watch takes one run folder", given=given, advice=usage("watch"))
    folder, terminal = user_path(options.arguments[0]), Terminal()
    if not terminal.is_terminal:
        for line in snapshot(folder):
            terminal.print(Text(line), soft_wrap=True)
        return 0
    with Live(_picture(folder), console=terminal, auto_refresh=False) as live:
        while is_held(folder) or is_awaited(folder):
            time.sleep(INTERVAL)
            live.update(_picture(folder), refresh=True)
    return 0


def _picture(folder: Path) -> Group:
    return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in snapshot(folder)))
