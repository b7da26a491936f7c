"""The rounds that a resumed round goes on from, and what the restarts cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from flagperf.contract.perflog import Event
from flagperf.contract.records import Result
from flagperf.contract.regular import read_yaml
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
        source = Path(read_yaml(round_folder / "config.yaml")["resume"]).parent
        log = first_rank_log(source)
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return []
    if log is None or not most:
        return []
    earlier = Earlier(log.events, resumed_step)
    steps = [event.value["step"] for event in earlier.kept if event.event == "STEP_END"]
    return [*earlier_rounds(source, min(steps, default=resumed_step) - 1, most - 1), earlier]


def restarts(rounds: Sequence[Earlier]) -> Restarts | None:
    """What earlier rounds took by the times of their events; None without such a round."""
    parts = [part for earlier in rounds if (part := _seconds(earlier))]
    if not parts:
        return None
    start, kept, lost = (sum(seconds) for seconds in zip(*parts, strict=True))
    return Restarts(len(parts), start, kept, lost)


def _seconds(earlier: Earlier) -> tuple[float, float, float] | None:
    """Seconds of the start, of the kept and of the lost training."""
    times = [event.time_ms / 1000 for event in earlier.events]
    began = next((event.time_ms / 1000 for event in earlier.events if event.event == "TRAIN_START"), None)
    if began is None:
        return None
    kept = max([began, *(event.time_ms / 1000 for event in earlier.kept)])
    return began - times[0], kept - began, max(times) - kept
