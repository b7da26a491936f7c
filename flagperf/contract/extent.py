"""How much data a case has in full, and what sets the data of a training apart from it.

A rank counts what its data sets really hold, after their filters. The case says in `data.extent` what they hold when
all of the data is there. On other data a full-size case claims no target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import Annotated

from flagperf.contract.fields import Count, Field

NOT_THE_CASE = "not the data of the case: "


@dataclass(frozen=True)
class Extent:
    """`data.extent` of a case: what its data sets hold when all of the data is there."""

    unit: str  # what one sample is, in the plural: images
    train: Count  # samples of the training
    eval: Count | None = None  # samples of the evaluation; None: not known
    classes: Count | None = None  # of the training; None: the data has none
    tolerance: Annotated[float, Field(float, low=0, high=1)] = 0.0  # share by which samples may be more or fewer

    @property
    def full(self) -> dict[str, tuple[str, int | None, float]]:
        """What is counted: name → in words, count, and the share by which it may differ."""
        return {
            "train": (f"training {self.unit}", self.train, self.tolerance),
            "eval": (f"evaluation {self.unit}", self.eval, self.tolerance),
            "classes": ("classes", self.classes, 0.0),
        }

    def differences(self, counts: Mapping[str, int]) -> str:
        """What sets the data that was counted apart, such as "16 of 1,281,167 training images"; "" for the full data.

        Args:
            counts: what the data sets hold, by the names of `full`; what is not there is not compared.
        """
        told = []
        for name, (words, count, tolerance) in self.full.items():
            found = counts.get(name)
            if found is not None and count is not None and abs(found - count) > tolerance * count:
                told.append(f"{found:,} {'of' if found < count else 'instead of'} {count:,} {words}")
        return ", ".join(told)


def extent_of(config: Mapping[str, Any]) -> Extent | None:
    """The extent that the data of a training must have; None for a reduced size, and where the case says none."""
    stated = (config.get("data") or {}).get("extent")
    return Extent(**stated) if stated and config["size"] == "full" else None


def counts_of(built: Mapping[str, Any]) -> dict[str, int]:
    """What the data sets hold, from a BUILT that was read back; a log may hold anything."""
    data = built.get("data")
    return {name: n for name, n in data.items() if isinstance(n, int)} if isinstance(data, dict) else {}


def other_data(config: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """What sets the data of a full-size case apart from its own, in words; "" where nothing does, or none is known."""
    extent = extent_of(config)
    return extent.differences(counts) if extent else ""
