"""Finds slow and late ranks in the step records of all ranks, during a run and afterwards.

With data parallelism each step ends at the same time on every rank. So the step records have the time that a rank
needs itself: without the wait for the gradients of other ranks (docs/results.md, "Slow ranks").
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from flagperf.contract.records import LateRank, SlowRank

WINDOW = 50  # steps in which a rank must be slow, to be named …
LEAST_SECONDS = 5.0  # … and the least time of them: other programs of a host slow a rank for some seconds …
PARTS = 5  # … in each of so many parts of them
MARGIN = 0.05  # share by which a slow rank needs longer than the median of the other ranks …
LEAST_MARGIN = 0.025  # … and in each part
HISTORY = 40  # newest parts, whose fluctuation is the noise …
LEAST_HISTORY = 8  # … and the least number of them
CERTAINTY = 4.0  # standard deviations of the noise that the time of a slow rank exceeds
QUARTILE = 0.6745  # of the normal distribution, in standard deviations
TIMES_OTHERS = 2.0  # multiple of the largest excess of any other rank so far that the excess of a slow rank reaches
LATE = 5.0  # seconds that the other ranks wait for a late rank, …
LATE_STEPS = 5.0  # … and a multiple of the usual time between two records

MEASURED = ("step_time", "own_time", "communication_wait", "data_wait")  # fields of a STEP_END
Finding = SlowRank | LateRank


class _Part(NamedTuple):
    """The time that each rank needs itself for a step, over some consecutive steps."""

    first: int  # step
    last: int
    seconds: float
    own_times: Mapping[int, float]  # rank → seconds
    data_waits: Mapping[int, float]  # rank → seconds of a step


class Stragglers:
    """Takes the step records of all ranks, in any order of the ranks, and returns what they show.

    Args:
        ranks: their number.
        warmup_steps: first steps, which do not count.
    """

    def __init__(self, ranks: int, warmup_steps: int) -> None:
        self._ranks, self._warmup = ranks, warmup_steps
        self._last = 0  # the last step whose record all ranks have
        self._waiting: dict[int, dict[int, Mapping[str, Any]]] = {}  # step → rank → record
        self._unfinished: list[tuple[int, dict[int, Mapping[str, Any]]]] = []  # records of the part that is not full
        self._parts: deque[_Part] = deque()  # as few as are long enough
        self._excesses = [deque[float](maxlen=HISTORY) for _ in range(ranks)]  # of each part
        self._levels = [deque[float](maxlen=HISTORY) for _ in range(ranks)]  # medians of _excesses; 0 of a slow rank
        self._usual: deque[float] = deque(maxlen=WINDOW)  # own seconds between two records, median of the ranks
        self._slow: dict[int, SlowRank] = {}  # those that are slow now

    def observe(self, rank: int, record: Mapping[str, Any]) -> Iterator[Finding]:
        """Take a STEP_END of a rank. Yields each rank that is now known to be slow or late, once."""
        step = int(record.get("step") or 0)
        if step <= self._last or not all(isinstance(record.get(name), float) for name in MEASURED):
            return
        of_ranks = self._waiting.setdefault(step, {})
        of_ranks[rank] = record
        if len(of_ranks) < self._ranks:
            return
        begin, self._last = self._last, step
        self._waiting = {later: records for later, records in self._waiting.items() if later > step}
        if begin:  # the first record has the preparations of the first step
            yield from self._late(begin, step, of_ranks)
        if step > self._warmup:
            yield from self._take(begin, step, of_ranks)

    @property
    def slow(self) -> tuple[SlowRank, ...]:
        """The ranks that are slow now, up to the last record."""
        return tuple(self._slow.values())

    # ---------------------------------------------------------------- slow ranks

    def _take(self, begin: int, step: int, records: dict[int, Mapping[str, Any]]) -> Iterator[SlowRank]:
        if begin >= self._warmup:  # else the record has steps of the warm-up
            self._unfinished.append((step - begin, records))
        steps = sum(count for count, _ in self._unfinished)
        seconds = sum(count * of_ranks[0]["step_time"] for count, of_ranks in self._unfinished)
        if steps < WINDOW // PARTS or seconds < LEAST_SECONDS / PARTS:
            return
        per_rank = {rank: [of_ranks[rank] for _, of_ranks in self._unfinished] for rank in range(self._ranks)}
        self._unfinished = []
        own_times = {rank: statistics.median(r["own_time"] for r in of_rank) for rank, of_rank in per_rank.items()}
        data_waits = {rank: sum(r["data_wait"] for r in of_rank) / steps for rank, of_rank in per_rank.items()}
        self._parts.append(_Part(step - steps + 1, step, seconds, own_times, data_waits))
        for rank, others_time in _of_others(own_times).items():
            self._excesses[rank].append(own_times[rank] / others_time - 1)
        yield from self._judge()

    def _judge(self) -> Iterator[SlowRank]:
        """Name the ranks that are slow over the newest parts. They must differ from the noise so far."""
        parts = self._parts
        while _long_enough([*parts][1:]):
            parts.popleft()
        if not _long_enough(parts):
            return
        newest = [list(history)[-len(parts) :] for history in self._excesses]
        medians = list(map(statistics.median, newest))
        largest = [max(history, default=0.0) for history in self._levels]
        first, second = sorted(largest, reverse=True)[:2]
        for rank, excess in enumerate(medians):
            level = TIMES_OTHERS * (second if largest[rank] == first else first)
            if rank in self._slow and excess < LEAST_MARGIN:
                del self._slow[rank]
            elif rank in self._slow:
                self._slow[rank] = self._slow_rank(rank, excess, self._slow[rank].first_step)
            elif min(newest[rank]) >= LEAST_MARGIN and excess >= max(MARGIN, level, self._noise(rank, len(parts))):
                self._slow[rank] = self._slow_rank(rank, excess, parts[0].first)
                yield self._slow[rank]
        for rank, excess in enumerate(medians):
            self._levels[rank].append(0.0 if rank in self._slow else excess)

    def _noise(self, rank: int, parts: int) -> float:
        """The excess that a rank's usual fluctuation explains; infinite while the fluctuation is not known."""
        history = list(self._excesses[rank])
        if len(history) < LEAST_HISTORY:
            return math.inf
        older = history[:-parts] if 2 * parts <= len(history) else history
        middle = statistics.median(older)
        return CERTAINTY * statistics.median(abs(excess - middle) for excess in older) / QUARTILE

    def _slow_rank(self, rank: int, excess: float, first_step: int) -> SlowRank:
        parts, mean = self._parts, statistics.fmean
        return SlowRank(
            rank=rank,
            first_step=first_step,
            last_step=parts[-1].last,
            excess=excess,
            own_time=mean(part.own_times[rank] for part in parts),
            others_time=mean(_of_others(part.own_times)[rank] for part in parts),
            data_wait=mean(part.data_waits[rank] for part in parts),
            others_data_wait=mean(_of_others(part.data_waits)[rank] for part in parts),
        )

    # ---------------------------------------------------------------- late ranks

    def _late(self, begin: int, step: int, records: Mapping[int, Mapping[str, Any]]) -> Iterator[LateRank]:
        """The rank for which the others waited long between two records."""
        count = step - begin
        seconds = {rank: r["step_time"] * count - r["communication_wait"] for rank, r in records.items()}
        usual, median = self._usual, statistics.median(seconds.values())
        if usual:
            last = max(seconds, key=seconds.__getitem__)
            waited = seconds[last] - _of_others(seconds)[last]
            if waited > max(LATE, LATE_STEPS * statistics.median(usual)):
                yield LateRank(last, begin + 1, step, waited)
        usual.append(median)


def _long_enough(parts: Sequence[_Part]) -> bool:
    """Whether a rank that is slow in these parts may be named."""
    steps = parts[-1].last - parts[0].first + 1 if parts else 0
    return steps >= WINDOW and sum(part.seconds for part in parts) >= LEAST_SECONDS


def _of_others(values: Mapping[int, float]) -> dict[int, float]:
    """For each rank, the median of the values of the other ranks."""
    order = sorted(values, key=values.__getitem__)
    low, high = (len(order) - 2) // 2, (len(order) - 1) // 2  # positions of the median among the others
    return {
        rank: (values[order[low + (low >= at)]] + values[order[high + (high >= at)]]) / 2
        for at, rank in enumerate(order)
    }


def stragglers(records: Iterable[tuple[int, Mapping[str, Any]]], ranks: int, warmup_steps: int) -> tuple[Finding, ...]:
    """The slow and late ranks of a round, in the order in which they were seen. A slow rank has its last slow step.

    Args:
        records: rank, and value of a STEP_END. The steps of each rank are in their order.
        ranks: their number.
    """
    if ranks < 2:
        return ()
    detector, known = Stragglers(ranks, warmup_steps), dict[tuple[int, int], Finding]()
    for rank, record in sorted(records, key=lambda entry: entry[1].get("step") or 0):
        known |= {(finding.rank, finding.first_step): finding for finding in detector.observe(rank, record)}
        known |= {(slow.rank, slow.first_step): slow for slow in detector.slow}
    return tuple(known.values())
