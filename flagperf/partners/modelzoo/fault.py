"""A fault of a model folder."""

from __future__ import annotations

from dataclasses import dataclass

from flagperf.errors import with_details


@dataclass(frozen=True)
class Fault:
    """A fault: its place, the actual value, the value that the guide asks for, and advice."""

    file: str  # below the folder, or a part of the check
    found: str
    asked: str  # by the guide
    advice: str

    def __str__(self) -> str:
        return with_details(self.file, {"found": self.found, "asked": self.asked, "do": self.advice})
