"""All figures of a run, one row each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flagperf.verify.logs import Round, read_json, read_round, read_yaml
from flagperf.verify.of_job import rows_of_job
from flagperf.verify.of_monitors import rows_of_monitors
from flagperf.verify.of_ranks import rows_of_ranks
from flagperf.verify.of_result import rows_of_result
from flagperf.verify.of_rounds import rows_of_rounds, rows_of_verdicts
from flagperf.verify.of_verdict import row_of_verdict, verdict
from flagperf.verify.values import Row, UnknownError, held

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
        place = f"{job.name}/{one.folder.name}"
        for rows in (
            (rows_of_job, rows_of_result, rows_of_ranks, rows_of_monitors) if one.figures else (_without_figures,)
        ):
            yield from _guarded(place, partial(rows, place, one))
    summary = read_json(job / "summary.json")
    yield from _guarded(job.name, partial(_verdicts, job.name, summary, config, rounds))
    yield from _guarded(job.name, partial(_asked_rounds, job, config))
    yield from _guarded(job.name, partial(rows_of_rounds, job.name, summary, [one.stated for one in rounds]))


def _asked(changes: list[object]) -> Iterator[str]:
    """The keys that the user changed, not a vendor's tuning."""
    for change in changes:
        if isinstance(change, dict) and not str(change.get("source", "")).startswith("tuning"):
            yield str(change.get("key"))


def _verdicts(
    name: str, summary: Mapping[str, Any], config: Mapping[str, Any], rounds: Sequence[Round]
) -> Iterator[Row]:
    """The verdicts of rounds and job."""
    found = [verdict(one) for one in rounds]
    for one, (by_rules, why) in zip(rounds, found, strict=True):
        if "verdict" in one.stated:
            yield row_of_verdict(f"{name}/{one.folder.name}", one.stated, by_rules, why)
    missing = int(config.get("repeat") or 1) - len(found)
    rest = [("INVALID", ["a round is missing"])] * missing
    yield from rows_of_verdicts(name, summary, config, [*found, *rest])


def _asked_rounds(job: Path, config: Mapping[str, Any]) -> Iterator[Row]:
    """The number of rounds against that of the command, where one was given for all jobs."""
    command = read_json(job.parent / "command.json")
    given = [text for text in command.get("overrides") or () if re.fullmatch(r"repeat=[0-9]+", text)]
    if given and not command.get("multirun"):
        yield held(job.name, "repeat of config.yaml", config.get("repeat"), int(given[-1][7:]), "command.json")


def _without_figures(place: str, round_: Round) -> Iterator[Row]:
    """A round that did not get so far, or whose result is missing."""
    why = f"it has no figures: {round_.stated.get('status')}" if round_.stated else "no result.json that can be read"
    yield Row(place, "FINISHED", None, None, "not recomputed", why)


def _guarded(place: str, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows; where a file holds what flagperf never writes, a row that says so ends them."""
    try:
        yield from rows()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, OSError, UnknownError) as error:
        how = f"a file is not as flagperf writes it: {type(error).__name__} {error}"
        yield Row(place, "its files", None, None, "differs", how)
