"""One thing that is wrong in a model folder."""

from __future__ import annotations

from dataclasses import dataclass

from flagperf.errors import with_details


@dataclass(frozen=True)
class Fault:
    """What is wrong, where, and what to do."""

    file: str  # below the folder, or a part of it
    found: str
    asked: str  # by the guide
    advice: str

    def __str__(self) -> str:
        return with_details(self.file, {"found": self.found, "asked": self.asked, "do": self.advice})
