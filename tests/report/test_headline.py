"""The figures that stand first in a report."""

from __future__ import annotations

from typing import Any

import pytest
from example_results import a_result
from test_report import VALUES, a_summary

from flagperf.contract.records import Achievable, Result, Summary
from flagperf.report.headline import Headline, Tile, headline

ENERGY = {"energy": {"devices": {"energy_wh": 30.0}}}
ALLOWED = Achievable(throughput=22170.0, share=0.5, source="the data sheet of A100")
THROUGHPUT = Tile("throughput", "11,085", "images/s", "p_train, 16 devices")
ENDED = "not shown: ended by max_steps"


def a_round(number: int = 1, *, values: Any = None, **changed: Any) -> Result:
    return a_result(round=number, values={**VALUES, **(values or {})}, **changed)


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        pytest.param(
            a_summary(a_round(monitors=ENERGY, achievable=ALLOWED)),
            Headline(
                "VALID",
                "Target: reached (acc1 ≥ 95 %)",
                (
                    THROUGHPUT,
                    Tile("time to target", "20.57", "min", "acc1 ≥ 95 %"),
                    Tile("MFU", "12.3", "%", "of the peak in the data sheet"),
                    Tile("share of the achievable", "50", "%", "of at most 22,170 images/s, by the data sheet of A100"),
                    Tile("energy", "30.00", "Wh", "of the accelerators, during the training"),
                ),
                "",
            ),
            id="all known",
        ),
        pytest.param(
            a_summary(
                a_round(
                    target_reached=None,
                    values={"mfu": None, "mfu_note": "no peak for fp32", "stop_reason": "max_steps"},
                    achievable=Achievable(missing=("peak_flops", "a traced step")),
                )
            ),
            Headline(
                "VALID",
                f"Target: {ENDED}",
                (THROUGHPUT,),
                f"Not known: time to target ({ENDED}); MFU (no peak for fp32); share of the achievable; energy (no "
                "monitor of the power saw the whole training).",
            ),
            id="little known",
        ),
        pytest.param(
            a_summary(
                a_round(values={"e2e_time": 90.0, "mfu_achieved": 0.25}, monitors=ENERGY, achievable=ALLOWED),
                a_round(2, target_reached=False, verdict="SUSPECT", reasons=("the host was busy",), monitors=ENERGY),
            ),
            Headline(
                "SUSPECT",
                "the host was busy",
                (
                    THROUGHPUT,
                    Tile("time to target", "90.00", "s", "acc1 ≥ 95 %, in 1 of 2 rounds"),
                    Tile("MFU", "12.3", "%", "of the peak in the data sheet; 25 % of the peak that a probe measured"),
                    Tile("share of the achievable", "50", "%", "of at most 22,170 images/s, by the data sheet of A100"),
                    Tile("energy", "30.00", "Wh", "of the accelerators, during the training"),
                ),
                "",
            ),
            id="two rounds, of which one reached the target",
        ),
        pytest.param(
            a_summary(a_round(verdict="INVALID", reasons=("failed: rank 3", "failed: rank 3", "no log"))),
            Headline("INVALID", "failed: rank 3; no log", (), ""),
            id="no round counts",
        ),
    ],
)
def test_headline(summary: Summary, shown: Headline) -> None:
    assert headline(summary) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(599.0, ("599.0", "s"), id="seconds"),
        pytest.param(600.0, ("10.00", "min"), id="minutes"),
        pytest.param(10_800.0, ("3.000", "h"), id="hours"),
    ],
)
def test_time_to_target(seconds: float, shown: tuple[str, str]) -> None:
    tile = headline(a_summary(a_round(values={"e2e_time": seconds}))).tiles[1]
    assert (tile.value, tile.unit) == shown
