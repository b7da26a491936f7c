"""What a round goes on from: rounds of earlier runs that it resumed, and lost attempts of its own (`restarts=N`)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from flagperf.contract.checkpoint import CHECKPOINTS
from flagperf.contract.perflog import Event
from flagperf.contract.records import Restart, Result
from flagperf.contract.regular import read_yaml
from flagperf.results.attempts import Attempt, folders, read
from flagperf.results.rank_log import first_rank_log

MOST = 100  # longest followed chain of rounds that resumed each other


class Earlier(NamedTuple):
    """A round that another round resumed."""

    events: Sequence[Event]  # of its first rank
    last: int  # step at which the next round went on

    @property
    def kept(self) -> list[Event]:
        """Events of steps that count."""
        return [event for event in self.events if (event.value or {}).get("step", self.last + 1) <= self.last]


class Seconds(NamedTuple):
    """Seconds of an earlier round: before its training, of training that counts, and of training that was lost."""

    start: float
    kept: float
    lost: float


class Restarts(NamedTuple):
    """Seconds of earlier rounds."""

    rounds: int
    start: float  # before their trainings
    kept: float  # of training, up to the steps at which the next round went on
    lost: float  # of training, after these steps


Chains = Mapping[int, Sequence[Earlier]]  # round → the rounds before it, the oldest first


def chains(job_folder: Path, results: Iterable[Result]) -> Chains:
    """The rounds before each resumed round, where their folders still exist. This reads their logs."""
    known = {
        result.round: earlier_rounds(job_folder / f"round{result.round}", step)
        for result in results
        if (step := result.values.get("resumed_from_step"))
    }
    return {number: rounds for number, rounds in known.items() if rounds}


def earlier_rounds(round_folder: Path, resumed_step: int, most: int = MOST) -> list[Earlier]:
    """The rounds before a round that went on after a step, as far as their folders still exist; the oldest first."""
    try:
        source = _resumed(round_folder)
        log = first_rank_log(source)
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return []
    if log is None or not most:
        return []
    earlier = Earlier(log.events, resumed_step)
    steps = [event.value["step"] for event in earlier.kept if event.event == "STEP_END"]
    return [*earlier_rounds(source, min(steps, default=resumed_step) - 1, most - 1), earlier]


def restarts(rounds: Sequence[Earlier]) -> Restarts | None:
    """What earlier rounds took by the times of their events; None without such a round."""
    parts = [part for earlier in rounds if (part := seconds_of(earlier))]
    if not parts:
        return None
    start, kept, lost = (sum(seconds) for seconds in zip(*parts, strict=True))
    return Restarts(len(parts), start, kept, lost)


def _resumed(round_folder: Path) -> Path:
    """The folder of the round, or of the lost attempt, whose checkpoint a round resumed."""
    source = Path(read_yaml(round_folder / "config.yaml")["resume"]).parent
    if source.is_dir():
        return source
    return [folder for folder in folders(round_folder) if (folder / CHECKPOINTS).is_dir()][-1]  # ranks on other hosts


def first_time(events: Iterable[Event], name: str) -> float | None:
    """The time of the first event of this name, in seconds since the epoch; None: there is none."""
    return next((event.time_ms / 1000 for event in events if event.event == name), None)


def seconds_of(earlier: Earlier) -> Seconds | None:
    """What a round took by the times of its events; None where it did not train."""
    times = [event.time_ms / 1000 for event in earlier.events]
    began = first_time(earlier.events, "TRAIN_START")
    if began is None:
        return None
    kept = max([began, *(event.time_ms / 1000 for event in earlier.kept)])
    return Seconds(began - times[0], kept - began, max(times) - kept)


def restarts_of(round_folder: Path, finished: Mapping[str, Any]) -> tuple[Restart, ...]:
    """The restarts of a round, from the files of its lost attempts.

    Args:
        finished: FINISHED of the last attempt, which knows its first step for certain; empty: it did not finish.
    """
    lost = [(attempt, folder) for folder in folders(round_folder) if (attempt := read(folder))]
    logs = [_events(folder) for folder in (*(folder for _, folder in lost), round_folder)]
    restarts = [_restart(attempt, *of_two) for (attempt, _), of_two in zip(lost, itertools.pairwise(logs), strict=True)]
    if restarts and finished:
        restarts[-1] = dataclasses.replace(restarts[-1], next_step=finished.get("resumed_from_step") or 0)
    return tuple(restarts)


def _restart(attempt: Attempt, events: Sequence[Event], next_events: Sequence[Event]) -> Restart:
    known = {field.name: getattr(attempt, field.name) for field in dataclasses.fields(Attempt)}
    steps = [event.value["step"] for event in events if event.event == "STEP_END"]
    seconds = seconds_of(Earlier(events, attempt.next_step))
    again, last = first_time(next_events, "TRAIN_START"), max((event.time_ms / 1000 for event in events), default=None)
    return Restart(
        **known,
        last_step=max(steps, default=None),
        lost=seconds and seconds.lost,
        away=None if again is None else again - (attempt.started if last is None else last),
    )


def _events(folder: Path) -> Sequence[Event]:
    log = first_rank_log(folder)
    return log.events if log else ()
