"""flagperf open: show the report of a run in the browser

usage: flagperf open RUN_DIR

The path of report.html is printed as well. Without a display, such as over ssh, only the path is printed.

words:
  RUN_DIR  a folder that a run made, such as result/run20260101-120000; flagperf list runs shows them

examples:
  flagperf open result/run20260101-120000

exit codes: 0, 2
"""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from flagperf.cli.words import expect, paths_and_options
from flagperf.errors import ConfigError

REPORT = "report.html"
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # variables: a browser can show something
WITH_DISPLAY = ("darwin", "win32")


def main(options: argparse.Namespace) -> int:
    """Print the path of the report, and open it in the browser of the desktop."""
    folders, _ = paths_and_options("open", options.arguments, ())
    expect("open", folders, 1, "one run folder")
    path = report_of(folders[0])
    print(path, flush=True)
    if can_show(sys.platform, os.environ):
        webbrowser.open(path.as_uri())
    return 0


def report_of(run_dir: Path) -> Path:
    """The absolute path of the report of a run.

    Raises:
        ConfigError: the folder has no report.
    """
    path = run_dir.absolute() / REPORT
    if not path.is_file():
        advice = f"flagperf report {run_dir} writes it; flagperf list runs shows the runs"
        raise ConfigError(f"no {REPORT} in this folder", given=run_dir, advice=advice)
    return path


def can_show(platform: str, environment: Mapping[str, str]) -> bool:
    """Whether this session has a display."""
    return platform in WITH_DISPLAY or any(environment.get(name) for name in DISPLAYS)
