"""The sentence on what a round achieved of what its product allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_results import CONFIG, a_result

from flagperf.contract.records import Achievable, ClassShare
from flagperf.report.achievable import achievable_lines
from flagperf.results.summary import summary_of

KNOWN = Achievable(
    throughput=14_048.0,
    share=0.4176,
    classes=(
        ClassShare("elementwise", 0.41, "memory bandwidth"),
        ClassShare("convolution", 0.38, "compute"),
        ClassShare("communication", 0.02, "links"),
    ),
    source="the data sheet of A100",
)
UNKNOWN = Achievable(missing=("peak_flops", "memory_bandwidth"), operations=2.5e9, moved=1.2e9)
ACHIEVED = "5,866 images/s (p_train)"


@pytest.mark.parametrize(
    ("achievable", "line"),
    [
        pytest.param(
            KNOWN,
            f"{ACHIEVED}, 42 % of what 16 A100 allow: at most 14,048 images/s, by the data sheet of A100. "
            "Of this least time 41 % is element-wise operators, limited by memory bandwidth; "
            "38 % is convolutions, limited by compute.",
            id="a data sheet",
        ),
        pytest.param(
            UNKNOWN,
            f"{ACHIEVED}. What 16 A100 allow at most is not known. Missing: peak_flops, memory_bandwidth. probe=run "
            "measures peaks and bandwidth. A step of one rank computes 2.5 GFLOP and moves 1.2 GB.",
            id="no figures",
        ),
        pytest.param(
            Achievable(missing=("a traced step",)),
            f"{ACHIEVED}. What 16 A100 allow at most is not known. Missing: a traced step. "
            "flagperf predict with the words of this run traces the step for the next run.",
            id="no trace",
        ),
    ],
)
def test_line(achievable: Achievable, line: str) -> None:
    results = [replace(a_result(values={"p_train": 5866.0}), achievable=achievable)]
    assert achievable_lines(summary_of("x", results, CONFIG, ()), results) == [line]


def test_no_line_without_a_figure() -> None:
    results = [a_result(values={"p_train": 5866.0}), replace(a_result(values={}), achievable=KNOWN)]
    assert achievable_lines(summary_of("x", results, CONFIG, ()), results) == []
