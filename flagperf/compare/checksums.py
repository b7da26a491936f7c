"""Compares the checksums that two runs of one training logged, step by step and rank by rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flagperf.results.rank_log import read_rank_logs

NAMES = ("loss", "gradients", "parameters")  # in the order in which a step computes them


@dataclass(frozen=True)
class Checksums:
    """The answer for two rounds with checksums of common steps."""

    steps: int  # common steps
    step: int | None = None  # the first with another checksum; None: all are equal
    rank: int | None = None
    name: str = ""  # of the checksum

    def __str__(self) -> str:
        if self.step is None:
            return f"checksums of {self.steps} steps equal"
        return f"checksums differ from step {self.step} on, first the {self.name} of rank {self.rank}"


def compared(reference: Path, other: Path) -> Checksums | None:
    """Compare two rounds by their folders; None: no step has checksums in both."""
    left, right = _of_round(reference), _of_round(other)
    common = sorted(left.keys() & right.keys())
    steps = len({step for step, _, _ in common})
    for step, index, rank in common:
        if left[step, index, rank] != right[step, index, rank]:
            return Checksums(steps, step, rank, NAMES[index])
    return Checksums(steps) if steps else None


def _of_round(folder: Path) -> dict[tuple[int, int, int], str]:
    """Step, index of the name in NAMES and rank → checksum."""
    return {
        (event.value["step"], index, log.rank): event.value[name]
        for log in read_rank_logs(folder)
        for event in log.all("CHECKSUMS")
        for index, name in enumerate(NAMES)
    }
