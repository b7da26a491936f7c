"""What a report says of the operations that the field's formulas count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from example_results import CONFIG, a_result

from flagperf.report.tables import formula_lines
from flagperf.results.summary import summary_of

TOKENS = {**CONFIG, "nnodes": 2, "nproc": 8, "throughput_unit": "tokens/s"}
VALUES: Mapping[str, Any] = {
    "p_train": 160_000.0,
    "formula_flops_6n": 48_181_567_488.0,
    "formula_flops": 57_914_449_920.0,
    "formula_flops_causal": 51_472_785_408.0,
    "flops_per_sample": 158_141e9,  # of 8192 tokens, forward
    "num_trained_samples": 100,
    "num_trained_units": 819_200,
    "mfu_6n": 0.487,
    "mfu_causal": 0.5204,
    "mfu_formula": 0.5857,
    "mfu": 0.5857,
}
LINE = (
    "Round 1: 10,000 tokens/s per device (p_train). GFLOP to train one of the tokens: 48.18 by 6N, 51.47 with causal "
    "attention, 57.91 with full attention, 57.91 as counted. MFU: 48.7 % by 6N, 52 % with causal attention, 58.6 % "
    "with full attention, 58.6 % as counted (in the column MFU)"
)


@pytest.mark.parametrize(
    ("rounds", "lines"),
    [
        pytest.param([VALUES], [LINE], id="all is known"),
        pytest.param(
            [VALUES, {**VALUES, "p_train": 176_000.0, "mfu_formula": 0.6}],
            [
                LINE,
                LINE.replace("Round 1: 10,000", "Round 2: 11,000").replace("58.6 % with", "60 % with"),
            ],
            id="a line a round",
        ),
        pytest.param(
            [{**VALUES, "mfu_formula": None}],
            [LINE.replace("58.6 % with", "– with")],
            id="the data sheet's peak is not known",
        ),
        pytest.param(
            [{**VALUES, "mfu": 0.7809, "hfu": 0.7809}],
            [
                LINE.replace(
                    "58.6 % as counted (in the column MFU)",
                    "as counted with recomputed activations 78.1 % (HFU, in the column MFU)",
                )
            ],
            id="activations are recomputed",
        ),
        pytest.param(
            [{**VALUES, "pipeline_bubble": 0.2}],
            [f"{LINE}. Pipeline bubble: 20 % of a step by the schedule"],
            id="a pipeline",
        ),
        pytest.param(
            [{**VALUES, "flops_per_sample": None}],
            [LINE.replace("57.91 as counted", "– as counted")],
            id="nothing was counted",
        ),
        pytest.param(
            [{**VALUES, "p_train": None, "num_trained_units": 0}],
            [LINE.replace("10,000 tokens", "– tokens").replace("57.91 as", "– as")],
            id="nothing was trained",
        ),
        pytest.param([{**VALUES, "formula_flops": None, "formula_flops_6n": None}], [], id="no formula"),
        pytest.param([{"p_train": 1.0}], [], id="a result from before there were formulas"),
    ],
)
def test_formula_lines(rounds: list[Mapping[str, Any]], lines: list[str]) -> None:
    results = [a_result(round=number, values=values) for number, values in enumerate(rounds, 1)]
    assert formula_lines(summary_of("job", results, TOKENS, ()), results) == lines
