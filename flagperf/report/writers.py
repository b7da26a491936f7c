"""The writers of a report's files: the classes that the key `reports` of the configuration lists."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from flagperf.contract.components import make_writer
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError, FlagperfError
from flagperf.results import summary
from flagperf.results.lost import lost

log = logging.getLogger(__name__)

KEY = "reports"
SHOWN = 3  # a warning names so many figures
# conf/config.yaml lists the same; this is for configurations of older runs, which lack the key.
BUILT_IN = (
    {"_target_": "flagperf.report.markdown.MarkdownReport"},
    {"_target_": "flagperf.report.page.HtmlReport"},
)


class Writer(Protocol):
    """Writes one file of a report."""

    def write(self, run_dir: Path, summaries: Sequence[Summary]) -> Path:
        """Write the file into the run folder, or replace it, and return its path. It is called after each job."""


def write(run_dir: Path, summaries: Sequence[Summary]) -> list[Path]:
    """Write the files that the run's configuration lists, and return their paths. A bug in a writer costs its file."""
    paths = []
    for writer in make_writers(summaries[0].config):
        try:
            paths.append(writer.write(run_dir, summaries))
        except (FlagperfError, OSError):
            raise
        except Exception as error:
            name = type(writer).__name__
            log.warning("%s wrote no report: %s: %s", name, type(error).__name__, error, exc_info=True)
    return paths


def write_again(run_dir: Path, summaries: Sequence[Summary]) -> list[Path]:
    """Write summary.json of each job that has ended, and the files of the report; return the paths of these files.

    Readers of summaries see the same as the report. Where a file knows figures that the logs do not tell any longer,
    it stays, and a warning names them.
    """
    lost_of = {job.name: lost(before, job) for job in summaries if (before := _earlier(run_dir / job.name))}
    for job in summaries:
        if summary.verdict(job) != "RUNNING" and not lost_of.get(job.name):
            summary.write(job, run_dir / job.name)
    gone = [f"{name}: {figures}" for name, of_job in lost_of.items() for figures in of_job]
    if not gone:
        return write(run_dir, summaries)
    more = f", and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
    log.warning("the report stays as it is, for these figures would be lost: %s%s", "; ".join(gone[:SHOWN]), more)
    return []


def _earlier(job: Path) -> Summary | None:
    """The summary in a job's folder; None where there is none that can be read."""
    try:
        return summary.read(job)
    except ConfigError:
        return None


def make_writers(config: Mapping[str, Any]) -> list[Writer]:
    """The writers that a configuration lists.

    Raises:
        ConfigError: an entry names no class of a writer, or its arguments do not fit.
    """
    entries = config.get(KEY, BUILT_IN)
    return [
        make_writer(f"{KEY}[{index}]", entry, "writer of reports", "docs/adding-a-verb.md")
        for index, entry in enumerate(entries)
    ]
