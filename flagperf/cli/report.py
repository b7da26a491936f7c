"""flagperf report: write the report of a run again, from its files

usage: flagperf report RUN_DIR [collect=true] [trust=true]

Without collect=true, flagperf reads only the files of the folder, and connects to no host.

words:
  RUN_DIR       a folder that a run made, such as result/run20260101-120000; flagperf list runs shows them
  collect=true  first fetch the logs that the run left on its hosts, or that its pods printed
  trust=true    use a folder that you did not make on this machine (docs/trust.md)

examples:
  flagperf report result/run20260101-120000
  flagperf report result/run20260101-120000 collect=true

exit codes: 0, 2, 3
"""

from __future__ import annotations

import argparse
from pathlib import Path

from flagperf import report
from flagperf.cli import trust
from flagperf.cli.awaited import queue_state
from flagperf.cli.cluster import print_rows
from flagperf.cli.collect import collect
from flagperf.cli.help import usage
from flagperf.config.schema.schedulers import source_name
from flagperf.errors import ConfigError
from flagperf.run.console import Terminal
from flagperf.run.folder import is_awaited, submitted
from flagperf.schedulers.interface import scheduler

COLLECT = "collect=true"


def main(options: argparse.Namespace) -> int:
    """Print the collected logs, the table of results, then the paths of the written files."""
    words, is_trusted = trust.trusted(options.arguments)
    folders = [word for word in words if word != COLLECT]
    if len(folders) != 1:
        given = " ".join(options.arguments)
        raise ConfigError("report takes one run folder", given=given, advice=usage("report"))
    folder, code = Path(folders[0]), 0
    if COLLECT in words:
        if not (rows := collect(folder, is_trusted)):
            print("nothing is left to collect")
        elif (code := print_rows(rows)) and all(row.state != "ok" for row in rows):
            return code
    if is_awaited(folder):
        given = f"Slurm job {submitted(folder).number} {queue_state(folder)}".strip()
        raise ConfigError("this run has not begun", given=given, advice=f"flagperf watch {folder}")
    summaries = report.read_run(folder)
    if not is_trusted:
        trust.check_writers("report", folder, summaries[0].config)
    source = scheduler(source_name(summaries[0].config.get("cluster")))
    summaries = tuple(source.with_final_states(folder, summaries))
    Terminal().print_table(report.terminal_table(summaries))
    for path in report.write_again(folder, summaries):
        print(path)
    return code
