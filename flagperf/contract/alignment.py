"""The record of an alignment: `flagperf align` writes the record, and a run with `require_alignment=true` needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

RECORD = "align.json"  # in the run folder of `flagperf align`
NOT_COMPARED = ("flagperf",)  # the code of the case has its own rules


@dataclass(frozen=True)
class AlignmentRecord:
    """The result of all curves of a case on a device."""

    case: str
    revision: int
    framework: str
    vendor: str
    hardware: str
    precision: str
    device: str  # name that the device reports
    inside: bool  # whether each number of each curve lies inside its band
    curves: Mapping[str, str]  # name of a curve → verdict
    golden: str  # SHA-256 of the file of the curves
    software: Mapping[str, str]  # package → version, of the ranks


def other_versions(aligned: Mapping[str, str], versions: Mapping[str, str | None]) -> Iterator[str]:
    """Packages whose version differs from the version of the alignment, in words."""
    for name in sorted(aligned.keys() & versions.keys()):
        if name not in NOT_COMPARED and versions[name] != aligned[name]:
            yield f"{name} {versions[name]}, the alignment has {aligned[name]}"


def command(case: str, vendor: str, hardware: str) -> str:
    """The command that makes the alignment of a case on a product."""
    return f"flagperf align model={case} vendor={vendor} hardware={hardware}"
