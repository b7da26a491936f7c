"""Checks all figures of a run. Each figure gives one row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flagperf.verify.alignment import alignment_rows
from flagperf.verify.job_figures import job_rows
from flagperf.verify.logs import Round, read_json, read_round, read_yaml
from flagperf.verify.monitor_figures import monitor_rows
from flagperf.verify.rank_figures import rank_rows
from flagperf.verify.result_fields import result_rows
from flagperf.verify.round_statistics import statistic_rows, verdict_rows
from flagperf.verify.values import Row, compare
from flagperf.verify.verdict_rules import verdict, verdict_row

MOST = {"nnodes": 65536, "nproc": 1024, "repeat": 10_000}  # as docs/configuration.md allows
MOST_RANKS = 1 << 20
ROUND = re.compile(r"round([0-9]+)")


def check(run: Path) -> list[Row]:
    """Compare every figure of a run with its logs. No content of the files raises an exception."""
    return [row for path in sorted(run.glob("*/config.yaml")) for row in _job_rows(path.parent)]


def _job_rows(job: Path) -> Iterator[Row]:
    config, changes = read_yaml(job / "config.yaml"), read_yaml(job / "changes.yaml")
    if not isinstance(config, dict):
        yield Row(job.name, "config.yaml", None, None, "not recomputed", "the file cannot be read")
        return
    if wrong := [*_beyond_measure(job.name, config)]:
        yield from wrong
        return
    changed_keys = tuple(_changed_by_user(changes if isinstance(changes, list) else []))
    numbers = sorted(int(match[1]) for path in job.iterdir() if (match := ROUND.fullmatch(path.name)))
    yield from _unread(job, changes, numbers)
    rounds = [read_round(job / f"round{number}", config, changed_keys) for number in numbers]
    for round_ in rounds:
        location = f"{job.name}/{round_.folder.name}"
        with_figures = (job_rows, result_rows, rank_rows, monitor_rows)
        for rows in with_figures if round_.figures else (_without_figures,):
            yield from _guarded(location, partial(rows, location, round_))
    summary = read_json(job / "summary.json")
    yield from _guarded(job.name, partial(_all_verdict_rows, job.name, summary, config, rounds))
    yield from _guarded(job.name, partial(_repeat_row, job, config))
    yield from _guarded(job.name, partial(alignment_rows, job, config))
    yield from _guarded(job.name, partial(statistic_rows, job.name, summary, [round_.stated for round_ in rounds]))


def _beyond_measure(location: str, config: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each size that is no size: loops and lists have as many entries."""
    sizes = {name: config.get(name, 1 if name == "repeat" else None) for name in MOST}
    for name, size in sizes.items():
        if type(size) is not int or not 1 <= size <= MOST[name]:
            yield Row(location, name, size, None, "differs", f"a whole number from 1 to {MOST[name]}")
            return
    if sizes["nnodes"] * sizes["nproc"] > MOST_RANKS:
        yield Row(
            location, "nnodes x nproc", sizes["nnodes"] * sizes["nproc"], None, "differs", f"at most {MOST_RANKS}"
        )


def _unread(job: Path, changes: object, numbers: Sequence[int]) -> Iterator[Row]:
    """A row for each file that is there and cannot be read. Other rows count it as missing."""
    records = [job / "summary.json", *(job / f"round{number}" / "result.json" for number in numbers)]
    unread = [path for path in records if path.is_file() and not read_json(path) and path.read_bytes().strip() != b"{}"]
    if (path := job / "changes.yaml").exists() and not isinstance(changes, list):
        unread.append(path)
    for path in unread:
        name = path.relative_to(job).as_posix()
        yield Row(job.name, name, None, None, "differs", "flagperf does not write files like this")


def _changed_by_user(changes: list[object]) -> Iterator[str]:
    """The keys that the user changed. Changes of a vendor's tuning are left out."""
    for change in changes:
        if isinstance(change, dict) and not str(change.get("source", "")).startswith("tuning"):
            yield str(change.get("key"))


def _all_verdict_rows(
    name: str, summary: Mapping[str, Any], config: Mapping[str, Any], rounds: Sequence[Round]
) -> Iterator[Row]:
    """The verdicts of the rounds and of the job."""
    verdicts = [verdict(round_) for round_ in rounds]
    for round_, (by_rules, reasons) in zip(rounds, verdicts, strict=True):
        if "verdict" in round_.stated:
            yield verdict_row(f"{name}/{round_.folder.name}", round_.stated, by_rules, reasons)
    missing = int(config.get("repeat") or 1) - len(verdicts)
    verdicts += [("INVALID", ["a round is missing"])] * missing
    yield from verdict_rows(name, summary, config, verdicts)


def _repeat_row(job: Path, config: Mapping[str, Any]) -> Iterator[Row]:
    """Compare `repeat` of config.yaml with the command, if the command sets one value for all jobs."""
    command = read_json(job.parent / "command.json")
    settings = [text for text in command.get("overrides") or () if re.fullmatch(r"\+{0,2}repeat=[0-9]+", text)]
    if settings and not command.get("multirun"):
        repeat = int(settings[-1].partition("=")[2])
        yield compare(job.name, "repeat of config.yaml", config.get("repeat"), repeat, "command.json")


def _without_figures(location: str, round_: Round) -> Iterator[Row]:
    """The row of a round that stopped early, or whose result is missing."""
    why = f"no figures: the status is {round_.stated.get('status')}" if round_.stated else "no readable result.json"
    yield Row(location, "FINISHED", None, None, "not recomputed", why)


def _guarded(location: str, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """Yield the rows. Content that flagperf never writes ends them with a row that says so."""
    try:
        yield from rows()
    except Exception as error:  # of any kind: content decides which
        why = f"flagperf does not write files like this: {type(error).__name__} {error}"
        yield Row(location, "its files", None, None, "differs", why)
