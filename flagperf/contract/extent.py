"""How much data a case has in full, and how the data of a training differs from that.

A rank counts the samples of its data sets, after their filters. `data.extent` of the case holds the counts of the full
data. On other data a full-size case claims no target.
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
    """`data.extent` of a case: the counts of its data sets with the full data."""

    unit: str  # name of the samples, such as images
    train: Count  # samples of the training
    eval: Count | None = None  # samples of the evaluation; None: not known
    classes: Count | None = None  # of the training; None: the data has none
    tolerance: Annotated[float, Field(float, low=0, high=1)] = 0.0  # share by which samples may be more or fewer

    @property
    def full(self) -> dict[str, tuple[str, int | None, float]]:
        """Name of a count → its description, the full count, and the share by which the count may differ."""
        return {
            "train": (f"training {self.unit}", self.train, self.tolerance),
            "eval": (f"evaluation {self.unit}", self.eval, self.tolerance),
            "classes": ("classes", self.classes, 0.0),
        }

    def differences(self, counts: Mapping[str, int]) -> str:
        """How the data differs from the full data: "16 of 1,281,167 training images"; "" where it does not.

        Args:
            counts: of the data sets, by the names of `full`; a missing count is not compared.
        """
        differences = []
        for name, (description, count, tolerance) in self.full.items():
            actual = counts.get(name)
            if actual is not None and count is not None and abs(actual - count) > tolerance * count:
                differences.append(f"{actual:,} {'of' if actual < count else 'instead of'} {count:,} {description}")
        return ", ".join(differences)


def extent_of(config: Mapping[str, Any]) -> Extent | None:
    """The extent that the data of a training must have; None for a reduced size, and where the case states none."""
    stated = (config.get("data") or {}).get("extent")
    return Extent(**stated) if stated and config["size"] == "full" else None


def counts_of(built: Mapping[str, Any]) -> dict[str, int]:
    """The counts of the data sets in a BUILT that was read back; a log may hold anything."""
    data = built.get("data")
    return {name: n for name, n in data.items() if isinstance(n, int)} if isinstance(data, dict) else {}


def other_data(config: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """How the data of a full-size training differs from the case's; "" where it does not, or no extent is stated."""
    extent = extent_of(config)
    return extent.differences(counts) if extent else ""
