"""The ranks of a job: the number of this process, and the messages between ranks beside gradients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Ranks:
    """Ranks as torchrun numbers them; without its variables a world of one. A framework implements the messages."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read torchrun's variables."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return cls(*(int(environment.get(name, default)) for name, default in zip(names, "0101")))

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on every rank."""
        raise NotImplementedError

    def largest(self, value: float) -> float:
        """The largest value of a host number over the ranks, the same on each."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when every rank is here."""
        self.largest(0.0)
