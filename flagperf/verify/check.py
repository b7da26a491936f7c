"""All figures of a run, one row each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from flagperf.verify.logs import Round, read_json, read_round, read_yaml
from flagperf.verify.of_job import rows_of_job
from flagperf.verify.of_monitors import rows_of_monitors
from flagperf.verify.of_ranks import rows_of_ranks
from flagperf.verify.of_rounds import rows_of_rounds
from flagperf.verify.values import Row

ROUND = re.compile(r"round([0-9]+)")


def check(run: Path) -> list[Row]:
    """Every figure that the files of a run state, held against its logs; nothing that they hold ends it."""
    return [row for path in sorted(run.glob("*/config.yaml")) for row in _job(path.parent)]


def _job(job: Path) -> Iterator[Row]:
    config, changes = read_yaml(job / "config.yaml"), read_yaml(job / "changes.yaml")
    if not isinstance(config, dict):
        yield Row(job.name, "config.yaml", None, None, "not recomputed", "it cannot be read")
        return
    asked = tuple(_asked(changes if isinstance(changes, list) else []))
    numbers = sorted(int(match[1]) for path in job.iterdir() if (match := ROUND.fullmatch(path.name)))
    rounds = [read_round(job / f"round{number}", config, asked) for number in numbers]
    for one in rounds:
        yield from _round(f"{job.name}/{one.folder.name}", one)
    summary = read_json(job / "summary.json")
    yield from rows_of_rounds(job.name, summary, [one.stated for one in rounds])


def _asked(changes: list[object]) -> Iterator[str]:
    """The keys that the user changed, not a vendor's tuning."""
    for change in changes:
        if isinstance(change, dict) and not str(change.get("source", "")).startswith("tuning"):
            yield str(change.get("key"))


def _round(place: str, round_: Round) -> Iterator[Row]:
    if not round_.stated:
        yield Row(place, "result.json", None, None, "not recomputed", "it is missing, or cannot be read")
        return
    if not round_.figures:
        yield Row(place, "FINISHED", None, None, "not recomputed", f"it has no figures: {round_.stated.get('status')}")
        return
    yield from rows_of_job(place, round_)
    yield from rows_of_ranks(place, round_)
    yield from rows_of_monitors(place, round_)
