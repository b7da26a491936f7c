"""`flagperf export RUN_DIR FILE`: writes the figures of a run for a spreadsheet or another program."""

from __future__ import annotations

import argparse

from flagperf import report
from flagperf.cli.words import expect, paths_and_options
from flagperf.export.files import write
from flagperf.export.record import benchmark


def main(options: argparse.Namespace) -> int:
    """Print the path of the file that was written."""
    paths, _ = paths_and_options("export", options.arguments, ())
    expect("export", paths, 2, "a run folder and the file to write")
    run, target = paths
    write(benchmark(run, report.read_run(run)), target)
    print(target)
    return 0
