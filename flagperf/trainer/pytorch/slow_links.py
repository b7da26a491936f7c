"""Searches a job's links for a slow one: pairs in rounds, then halves of the devices of each suspect.

`contract/slow_links.py` chooses pairs and suspects; every rank computes the same from the same figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from time import perf_counter, sleep
from typing import Any

import torch
from torch import distributed as dist

from flagperf.contract.fabric import KIB, NODE, NODES
from flagperf.contract.slow_links import (
    LATENCY,
    Limits,
    Link,
    Pair,
    Suspect,
    rounds,
    slow_again,
    suspects,
)
from flagperf.trainer.pytorch.fabric import largest_message
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.timing import Timing

TRIPS, TRIALS = 30, 4  # round trips of the latency, and messages of the bandwidth; the fastest counts
PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds before each new measurement of a suspect
MOST_LISTED = 4000  # links that the log lists; the launcher drops lines of more than 1 MiB
SIZE = {"cpu": 4 * KIB**2}  # bytes of a message, by kind of device; …
SIZE_ELSEWHERE = 64 * KIB**2


class SlowLinks:
    """Searches for slow links, together with the other ranks."""

    def __init__(self, config: Mapping[str, Any], device: torch.device, world: World) -> None:
        self.world, self.timing = world, Timing(device, world)
        size = min(SIZE.get(device.type, SIZE_ELSEWHERE), largest_message(config, device))
        self.message = torch.ones(size, dtype=torch.uint8, device=device)
        self.sign = torch.ones(1, dtype=torch.uint8, device=device)
        fabric = config["fabric"]
        self.limits = Limits(fabric["slow"], fabric["least_bandwidth"] or 0.0, fabric["most_latency"])

    def search(self) -> Iterator[dict[str, Any]]:
        """Links within nodes, then between nodes: the measured links of each part, and the confirmed slow links."""
        size, local = self.world.size, self.world.local_size
        nodes = [list(range(first, first + local)) for first in range(0, size, local)]
        rails = [list(range(device, size, local)) for device in range(local)]
        parts = {NODE: nodes, NODES: rails}
        return (self._part(name, ends) for name, ends in parts.items() if len(ends[0]) > 1)

    def _part(self, name: str, ends: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Rounds of pairs within each list of ranks, all lists at the same time; then halves."""
        links: list[Link] = []
        tournaments = [rounds(ranks) for ranks in ends]
        for pairs in zip(*tournaments):
            links += self._measure([pair for of_list in pairs for pair in of_list])
        named = suspects(links, self.limits)
        confirmed = [
            suspect for group in _together(named, self.world.local_size) for suspect in self._narrow(group, links)
        ]
        return {
            "part": name,
            "rounds": len(tournaments[0]),
            "measured": len(links),
            "links": [asdict(link) for link in links] if len(links) <= MOST_LISTED else [],
            "suspects": [asdict(suspect) for suspect in confirmed],
        }

    def _narrow(self, group: Sequence[Suspect], links: Sequence[Link]) -> list[Suspect]:
        """Measure suspects of one host again, and halves of them alone, until each is slow alone or is acquitted.

        A suspect that is fast once is acquitted: other work of a host may make a link slow for a moment.
        """
        left = list(group)
        for pause in PAUSES:
            sleep(pause)
            pairs = {suspect: (suspect.rank, _partner(suspect, group, links)) for suspect in left}
            again = self._measure(list(pairs.values()))
            left = [suspect for suspect in left if slow_again(suspect, pairs[suspect], links, again, self.limits)]
            if not left:
                return []
        if len(group) == 1:
            return left
        middle = len(left) // 2
        return [suspect for half in (left[:middle], left[middle:]) if half for suspect in self._narrow(half, links)]

    def _measure(self, pairs: Sequence[Pair]) -> list[Link]:
        """The links of pairs, measured at the same time; on every rank."""
        self.world.wait()
        mine: list[Link] = []
        for pair in dict.fromkeys(pairs):
            if self.world.rank in pair:
                mine += self._pair(*pair)
        return [link for links in self.world.gather(mine) for link in links]

    def _pair(self, first: int, second: int) -> list[Link]:
        """The link from this rank to the other one of a pair. The first one begins."""
        rank = self.world.rank
        peer = second if rank == first else first
        latency = min(self._trip(self.sign, peer, rank == first) for _ in range(TRIPS)) / 2
        bandwidth = 0.0
        for sender in (first, second):
            seconds = min(self._trip(self.message, peer, rank == sender) for _ in range(TRIALS))
            if sender == rank:
                bandwidth = len(self.message) / max(seconds - 2 * latency, seconds / 10)
        return [Link(rank, peer, bandwidth, latency)]

    def _trip(self, message: torch.Tensor, peer: int, begins: bool) -> float:
        """Seconds until a message is answered by a sign."""
        began = perf_counter()
        if begins:
            dist.send(message, peer)
            dist.recv(self.sign, peer)
        else:
            dist.recv(message, peer)
            dist.send(self.sign, peer)
        self.timing.wait()
        return perf_counter() - began


def _together(named: Sequence[Suspect], local_size: int) -> list[list[Suspect]]:
    """Suspects of the same host, figure and direction; a slow link between two ends alone."""
    groups: dict[Any, list[Suspect]] = {}
    for suspect in named:
        alone = None if suspect.peer is None else (suspect.rank, suspect.peer)
        groups.setdefault((suspect.rank // local_size, suspect.figure, suspect.direction, alone), []).append(suspect)
    return list(groups.values())


def _partner(suspect: Suspect, group: Sequence[Suspect], links: Sequence[Link]) -> int:
    """The other end of the link by which a suspect is measured again: the fastest of those it was measured with."""
    if suspect.peer is not None:
        return suspect.peer
    rank, slow = suspect.rank, {other.rank for other in group}
    ends = [(link.target, link) for link in links if link.source == rank]
    ends += [(link.source, link) for link in links if link.target == rank]
    free = [end for end in ends if end[0] not in slow] or ends
    if suspect.figure == LATENCY:
        return min(free, key=lambda end: (end[1].latency, end[0]))[0]
    return max(free, key=lambda end: (end[1].bandwidth, -end[0]))[0]
