"""The writers of a report's files: the classes that the key `reports` of the configuration lists."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from flagperf.config.schema.keys import KEYS
from flagperf.contract.components import make_writer
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError, FlagperfError
from flagperf.plan.values import CONFIG
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


WRITERS = frozenset(writer["_target_"] for writer in BUILT_IN)
PLAIN = (str, int, float, bool, type(None))


class Writer(Protocol):
    """Writes one file of a report."""

    def write(self, run_dir: Path, summaries: Sequence[Summary]) -> Path:
        """Write the file into the run folder, or replace it, and return its path. It is called after each job."""


def entries_of(config: Mapping[str, Any]) -> Sequence[Any]:
    """The entries of `reports`.

    Raises:
        ConfigError: it is no list.
    """
    entries = config.get(KEY, BUILT_IN)
    KEYS[KEY].check(KEY, list(entries) if isinstance(entries, tuple) else entries, lambda _: CONFIG)
    return entries  # type: ignore[no-any-return]


def is_built_in(entry: object) -> bool:
    """Whether an entry of `reports` describes a writer of flagperf, and nothing that Hydra would call beside it.

    A name below flagperf says nothing: `flagperf.report.page.Path.write_text` is Python's function. Hydra also calls
    each `_target_` in an argument, and reads variables for a `${…}`.
    """
    target = entry.get("_target_") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(target, str) or target not in WRITERS:
        return False
    arguments = {key: value for key, value in entry.items() if key != "_target_"}
    return all(
        not str(key).startswith("_") and isinstance(value, PLAIN) and "${" not in str(value)
        for key, value in arguments.items()
    )


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
        ConfigError: it is no list, an entry names no class of a writer, or its arguments do not fit.
    """
    return [
        make_writer(f"{KEY}[{index}]", entry, "writer of reports", "docs/adding-a-verb.md")
        for index, entry in enumerate(entries_of(config))
    ]
