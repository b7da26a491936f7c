"""Measures the links of a job: collectives over groups of ranks, and copies between host and device.

docs/probe.md explains the figures. All groups of one kind are measured at the same time, as in a training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Callable, Tuple

import torch
from torch import distributed as dist

from flagperf.contract.fabric import COLLECTIVES, COPIES, DEVICE, KIB, Curve, Groups, groups_of, message_sizes
from flagperf.contract.fields import size_in_bytes
from flagperf.contract.mesh import Mesh
from flagperf.trainer.pytorch.collectives import Call, collective
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.timing import Timing

LARGEST = {"cpu": 16 * KIB**2}  # bytes, by kind of device; …
LARGEST_ELSEWHERE = KIB**3
LONGEST = 2.0  # seconds of a call after which larger messages are left out
MOST_CALLS = 2000

TO_DEVICE, TO_HOST, WITHIN = COPIES

Make = Callable[[int], Tuple[Call, int]]  # size → one call, and its bytes


def largest_message(config: Mapping[str, Any], device: torch.device) -> int:
    """Bytes of the largest message."""
    given = config["fabric"]["largest"]
    return LARGEST.get(device.type, LARGEST_ELSEWHERE) if given is None else size_in_bytes(given)


def _why_pageable(device: torch.device) -> str:
    """Why copies use pageable memory of the host; "" where the memory is page-locked, and on a CPU."""
    if device.type == "cpu":
        return ""
    try:
        torch.ones(1, pin_memory=True)
    except RuntimeError:
        return f"the memory of the host is pageable, because {device.type} has no page-locked memory"
    return ""


class Fabric:
    """Measures the links of one rank, together with the other ranks."""

    def __init__(self, config: Mapping[str, Any], device: torch.device, world: World) -> None:
        self.device, self.world, self.timing = device, world, Timing(device, world)
        self.sizes = message_sizes(KIB, largest_message(config, device))
        self.target = config["fabric"]["seconds"]
        self.pageable = _why_pageable(device)
        self.groups = groups_of(world.size, world.local_size, Mesh.of(config["parallel"]["mesh"], world.size))

    def curves(self) -> Iterator[Curve]:
        """The curves, each when it is measured: copies, then the collectives of each kind of group."""
        for kind in COPIES:
            yield self._curve(kind, DEVICE, [[rank] for rank in range(self.world.size)], partial(self._copy, kind))
        for name, groups in self.groups.items():
            group, ranks = self._group(groups)
            for kind in COLLECTIVES:
                make = partial(collective, kind, group=group, ranks=ranks, device=self.device)
                yield self._curve(kind, name, groups, make)

    def _group(self, groups: Groups) -> tuple[Any, Sequence[int]]:
        """This rank's process group and its ranks. All ranks make all groups, in the same order."""
        made = [(dist.new_group(ranks), ranks) for ranks in groups]
        return next((group, ranks) for group, ranks in made if self.world.rank in ranks)

    def _copy(self, kind: str, size: int) -> tuple[Call, int]:
        """A copy. The memory of the host is page-locked where the device's plug-in can do so."""
        near = torch.ones(size, dtype=torch.uint8, device=self.device)
        if kind == WITHIN:
            other = torch.ones_like(near)
        else:
            locked = self.device.type != "cpu" and not self.pageable
            other = torch.ones(size, dtype=torch.uint8, pin_memory=locked)
        source, target = (near, other) if kind == TO_HOST else (other, near)
        return lambda: target.copy_(source, non_blocking=True), size

    def _curve(self, kind: str, name: str, groups: Groups, make: Make) -> Curve:
        """The curve of one collective or copy."""
        sizes, seconds, reason = [], [], self.pageable if kind in (TO_DEVICE, TO_HOST) else ""
        for size in self.sizes:
            point = self._point(partial(make, size))
            if point is None:
                reasons = filter(None, self.world.gather(self.timing.reason))
                reason = next(reasons, "")
                break
            sizes.append(point[0])
            seconds.append(point[1])
            if point[1] > LONGEST and size < self.sizes[-1]:
                reason = f"one call takes {point[1]:.1f} s, so larger sizes are left out"
                break
        per_node = max(
            sum(rank // self.world.local_size == node for rank in ranks)
            for ranks in groups
            for node in {rank // self.world.local_size for rank in ranks}
        )
        return Curve(kind, name, len(groups[0]), per_node, tuple(sizes), tuple(seconds), reason)

    def _point(self, make: Callable[[], tuple[Call, int]]) -> tuple[int, float] | None:
        """Bytes of a message, and seconds of a call on the slowest rank; None where a rank cannot make the call."""
        made = self.timing.together(make)
        if made is None or self.timing.together(partial(self.timing.seconds, made[0], 1)) is None:
            return None
        call, size = made
        self.world.wait()
        once = self.world.largest(self.timing.seconds(call, 2)) / 2
        calls = max(1, min(MOST_CALLS, round(self.target / max(once, 1e-9))))
        self.world.wait()
        return size, self.world.largest(self.timing.seconds(call, calls)) / calls
