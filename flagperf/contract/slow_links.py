"""The search for a slow link, without the messages: who is measured with whom, and whom the figures blame.

Ends of links are ranks. In each round every end is in one pair at most, and all pairs are measured at the same time.
A link counts as slow in comparison with the median of the faster half: up to half of the links may be slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Tuple

BANDWIDTH, LATENCY = "bandwidth", "latency"
SENDING, RECEIVING, BOTH = "sending", "receiving", "both"
MOST_ROUNDS = 31  # of pairs; more hosts than 32 meet only some of the others
MOST = 0.8  # of an end's links: with more slow links the end is slow, and not only some links
LEAST_DELAY = 20e-6  # seconds by which a latency differs at least: less is another path through the switches

Pair = Tuple[int, int]


@dataclass(frozen=True)
class Limits:
    """From where on a link is slow."""

    share: float  # of the bandwidth of the others; of the latency: 1 / share
    least_bandwidth: float = 0.0  # bytes/s; slower is slow, whatever the others reach
    most_latency: float = float("inf")  # seconds; more is slow, whatever the others have

    def lowest_bandwidth(self, others: float) -> float:
        """Bytes/s below which a link is slow beside others."""
        return max(self.share * others, self.least_bandwidth)

    def highest_latency(self, others: float) -> float:
        """Seconds above which a link is slow beside others."""
        return min(max(others / self.share, others + LEAST_DELAY), self.most_latency)


@dataclass(frozen=True)
class Link:
    """What was measured from one rank to another."""

    source: int
    target: int
    bandwidth: float  # bytes/s
    latency: float  # seconds: half of a round trip, so of both directions


@dataclass(frozen=True)
class Suspect:
    """An end whose links are slow, or one slow link between two ends."""

    figure: str  # BANDWIDTH or LATENCY
    direction: str  # of the end: SENDING, RECEIVING; BOTH
    rank: int
    peer: int | None  # of a link; None: nearly all links of the end are slow
    value: float  # median of the slow links
    others: float  # median of the faster half of all links

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Suspect:
        """A suspect of a log."""
        return cls(**{name: record[name] for name in cls.__dataclass_fields__})


def rounds(ends: Sequence[int]) -> list[list[Pair]]:
    """Rounds in which every two ends meet once (the circle method of tournaments); of many ends, only some rounds."""
    circle: list[int | None] = [*ends, *([None] if len(ends) % 2 else [])]
    count, half = len(circle) - 1, len(circle) // 2
    every = max(1, -(-count // MOST_ROUNDS))
    result = []
    for number in range(max(0, count)):
        pairs = zip(circle[:half], reversed(circle[half:]))
        if number % every == 0:
            result.append([(first, second) for first, second in pairs if first is not None and second is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return result


def suspects(links: Sequence[Link], limits: Limits, lists: int = 1) -> list[Suspect]:
    """Ends and links that are slow. Empty where all links are alike.

    Args:
        lists: of ends that were measured with each other, such as the devices of a number, one on each host.
    """
    if not links:
        return []
    return [*_of_bandwidth(links, limits, lists), *_of_latency(links, limits, lists)]


def slow_again(suspect: Suspect, pair: Pair, before: Iterable[Link], again: Iterable[Link], limits: Limits) -> bool:
    """Whether a suspect is slow in a new measurement.

    Work that began on a host since the first measurement slows all its links. Where the way back was fast in the first
    measurement, the new figure of the way back is therefore the comparison, if it is lower.

    Args:
        pair: the suspect's rank and the rank that it is measured with.
        before: links of the first measurement.
        again: links of the new measurement; both directions of `pair` are among them.
    """
    now = {(link.source, link.target): link for link in again}
    ahead, back = (pair[::-1], pair) if suspect.direction == RECEIVING else (pair, pair[::-1])
    if suspect.figure == LATENCY:
        return min(now[ahead].latency, now[back].latency) > limits.highest_latency(suspect.others)
    others = suspect.others
    back_before = next(link.bandwidth for link in before if (link.source, link.target) == back)
    if back_before >= limits.lowest_bandwidth(others):
        others = min(others, now[back].bandwidth)
    return now[ahead].bandwidth < limits.lowest_bandwidth(others)


def _of_bandwidth(links: Sequence[Link], limits: Limits, lists: int) -> Iterable[Suspect]:
    others = _faster_half([link.bandwidth for link in links], reverse=True)
    lowest = limits.lowest_bandwidth(others)
    values = {(link.source, link.target): link.bandwidth for link in links}
    slow = {pair for pair, value in values.items() if value < lowest}
    ends = {
        (end, side): {pair for pair in values if pair[side] == end} for pair in values for side, end in enumerate(pair)
    }
    for (end, side), pairs in _blamed(ends, slow):
        direction = (SENDING, RECEIVING)[side]
        yield Suspect(BANDWIDTH, direction, end, None, median(values[pair] for pair in pairs), others)
    for source, target in sorted(_rare(slow, values, lists)):
        yield Suspect(BANDWIDTH, SENDING, source, target, values[source, target], others)


def _of_latency(links: Sequence[Link], limits: Limits, lists: int) -> Iterable[Suspect]:
    values: dict[Pair, float] = {}
    for link in links:
        pair = (min(link.source, link.target), max(link.source, link.target))
        values[pair] = min(link.latency, values.get(pair, link.latency))
    others = _faster_half(list(values.values()), reverse=False)
    highest = limits.highest_latency(others)
    slow = {pair for pair, value in values.items() if value > highest}
    ends = {(end, 0): {pair for pair in values if end in pair} for pair in values for end in pair}
    for (end, _), pairs in _blamed(ends, slow):
        yield Suspect(LATENCY, BOTH, end, None, median(values[pair] for pair in pairs), others)
    for first, second in sorted(_rare(slow, values, lists)):
        yield Suspect(LATENCY, BOTH, first, second, values[first, second], others)


def _faster_half(values: Sequence[float], *, reverse: bool) -> float:
    """Median of the better half of values; `reverse`: larger is better."""
    return median(sorted(values, reverse=reverse)[: -(-len(values) // 2)])


End = Tuple[int, int]


def _blamed(ends: Mapping[End, set[Pair]], slow: set[Pair]) -> Iterable[tuple[End, set[Pair]]]:
    """Ends that explain slow links, the clearest first, each with its slow links, which it takes out of `slow`.

    An end is blamed if nearly all of its links are slow, and more than one, not counting those that an end before it
    explains.
    """
    explained: set[Pair] = set()
    while True:
        left = {end: pairs - explained for end, pairs in ends.items()}
        rates = {end: len(pairs & slow) / len(pairs) for end, pairs in left.items() if len(pairs & slow) > 1}
        end = max(rates, key=lambda end: (rates[end], len(left[end]), (-end[0], -end[1])), default=None)
        if end is None or rates[end] <= MOST:
            return
        yield end, left[end] & slow
        explained |= left[end]
        slow -= left[end]


def _rare(slow: set[Pair], pairs: Mapping[Pair, float], lists: int) -> set[Pair]:
    """Slow links that no end explains, if they are the exception; else they are the shape of the network."""
    return slow if len(pairs) <= 2 * lists or 3 * len(slow) <= len(pairs) else set()
