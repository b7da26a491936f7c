"""Counts of a few blocks → counts of all."""

from __future__ import annotations

from typing import Any

import pytest

from flagperf.contract.trace import KINDS
from flagperf.trainer.pytorch.trace.counts import Counts
from flagperf.trainer.pytorch.trace.linear import along_line


def held(**bytes_by_kind: float) -> dict[str, float]:
    return {kind: bytes_by_kind.get(kind, 0.0) for kind in KINDS}


@pytest.mark.parametrize(
    ("two", "three", "ten"),
    [
        pytest.param(
            {"parameters": 2, "activations": 6, "temporary": 1},
            {"parameters": 3, "activations": 9, "temporary": 1},
            {"parameters": 10, "activations": 30, "temporary": 1},
            id="the same moment of the step: each kind on its line",
        ),
        pytest.param(
            {"activations": 4, "communication": 6},
            {"activations": 10, "communication": 2},
            {"activations": 26.0},
            id="two moments: the sum on its line, and no kind alone above it",
        ),
    ],
)
def test_peaks(two: dict[str, Any], three: dict[str, Any], ten: dict[str, Any]) -> None:
    location = "forward", "layers.0"
    counts = [Counts(1, {location: held(**kinds)}) for kinds in (two, three)]
    line = along_line([*counts], (2, 3), 10)
    assert line.peaks == {location: pytest.approx(held(**ten))}
