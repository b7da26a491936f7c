"""When a target is reached."""

from __future__ import annotations

import math

import pytest

from flagperf.contract.target import Target

HIGHER = Target("acc1", 75.0, "higher", "%")
LOWER = Target("loss", 0.5, "lower")
BOTH = Target("box", 0.38, "higher", also={"mask": 0.34})


@pytest.mark.parametrize(
    ("target", "metrics", "missed"),
    [
        pytest.param(HIGHER, {"acc1": 75.0, "acc5": 1.0}, [], id="as good as asked"),
        pytest.param(HIGHER, {"acc1": 74.9}, ["acc1"], id="too low"),
        pytest.param(LOWER, {"loss": 0.4}, [], id="lower is better"),
        pytest.param(LOWER, {"loss": 0.6}, ["loss"], id="too high"),
        pytest.param(BOTH, {"box": 0.4, "mask": 0.4}, [], id="both"),
        pytest.param(BOTH, {"box": 0.4, "mask": 0.3}, ["mask"], id="one of two"),
        pytest.param(HIGHER, {"acc1": math.nan}, ["acc1"], id="NaN, higher"),
        pytest.param(LOWER, {"loss": math.nan}, ["loss"], id="NaN, lower"),
        pytest.param(HIGHER, {"acc1": None}, ["acc1"], id="None"),
        pytest.param(BOTH, {}, ["box", "mask"], id="absent"),
    ],
)
def test_missed(target: Target, metrics: dict[str, float | None], missed: list[str]) -> None:
    assert target.missed(metrics) == missed
    assert target.reached(metrics) == (not missed)
