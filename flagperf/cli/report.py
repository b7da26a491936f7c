"""`flagperf report RUN_DIR`: writes the report of a run again, from the files alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from flagperf import report
from flagperf.cli import trust
from flagperf.cli.awaited import stands
from flagperf.cli.ended import with_final_states
from flagperf.cli.verbs import usage
from flagperf.errors import ConfigError
from flagperf.run.console import Terminal
from flagperf.run.folder import is_awaited, submitted


def main(options: argparse.Namespace) -> int:
    """Print the table of results, then the paths of the files that were written."""
    words, is_trusted = trust.trusted(options.arguments)
    if len(words) != 1:
        given = " ".join(options.arguments)
        raise ConfigError("report takes one run folder", given=given, advice=usage("report"))
    folder = Path(words[0])
    if is_awaited(folder):
        given = f"Slurm job {submitted(folder).number} {stands(folder)}".strip()
        raise ConfigError("this run has not begun", given=given, advice=f"flagperf watch {folder}")
    summaries = report.read_run(folder)
    if not is_trusted:
        trust.check_writers("report", folder, summaries[0].config)
    summaries = with_final_states(folder, summaries)
    Terminal().print(report.terminal_table(summaries))
    report.write_summaries(folder, summaries)
    for path in report.write(folder, summaries):
        print(path)
    return 0
