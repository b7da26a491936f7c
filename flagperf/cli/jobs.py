"""Runs the jobs of a command and prints their results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from flagperf import report
from flagperf.config.schema.values import JobConfig
from flagperf.contract.records import Summary
from flagperf.run.command_file import Command
from flagperf.run.console import Terminal
from flagperf.run.jobs import run_jobs


def run(jobs: Sequence[JobConfig], command: Command) -> int:
    """Run all jobs; print the table of results, the files of the report, and failures. Returns the exit code.

    Raises:
        ConfigError: a writer of reports, or the run folder, cannot be created.
    """
    report.make_writers(jobs[0].config)
    console, paths = Terminal(), list[Path]()

    def write(folder: Path, summaries: Sequence[Summary]) -> None:
        paths[:] = report.write(folder, summaries)

    summaries, code = asyncio.run(run_jobs(jobs, console, command, write))
    console.print_table(report.terminal_table(summaries))
    for path in paths:
        console.print(str(path), highlight=False, markup=False, soft_wrap=True)
    for line in (*report.unmet_lines(summaries), *_failures(summaries)):  # the last lines, so that users see them
        console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    return code


def _failures(summaries: Sequence[Summary]) -> Iterator[str]:
    """A line for each round that failed, with the reason."""
    rounds = [(done.name, round_) for done in summaries for round_ in done.results]
    for name, round_ in rounds:
        if round_.failure is not None:
            word = f"failed: {name}, round {round_.round}" if len(rounds) > 1 else "failed"
            yield round_.failure.after(word)
