"""Runs beside the prediction of their case."""

from __future__ import annotations

from typing import Any

import pytest
from example_results import CONFIG, a_result
from predict.test_scaling import HARDWARE, TRACE, config

from flagperf.contract.mesh import Mesh
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError
from flagperf.predict.scaling import Scale, scale_of
from flagperf.predict.times import figures_of
from flagperf.report.measured_scales import Measured, measured_scales
from flagperf.report.prediction import measured_lines, prediction_page, scale_rows
from flagperf.results.summary import summary_of

PREDICTED = {**CONFIG, "hardware": HARDWARE}
IN_TOKENS = {"p_train": 6400.0, "num_trained_samples": 100, "num_trained_units": 3200}  # 200 samples/s


def a_run(*rounds: dict[str, Any], **changed: Any) -> Summary:
    return summary_of("a run", [a_result(**values) for values in rounds], {**PREDICTED, **changed}, ())


def scale(nnodes: int) -> Scale:
    return scale_of(TRACE, config(nnodes), figures_of(config(nnodes)), 20.0)


@pytest.mark.parametrize(
    ("runs", "measured"),
    [
        pytest.param(
            [a_run({"values": IN_TOKENS}, {"values": {**IN_TOKENS, "p_train": 6464.0}})],
            [Measured(2, 8, Mesh(dp_replicate=16), 201.0)],
            id="the mean of the rounds, in samples",
        ),
        pytest.param(
            [
                a_run({"values": IN_TOKENS}, parallel={"mesh": {"dp_replicate": 1, "dp_shard": -1, "tp": 2}}),
                a_run({"values": IN_TOKENS}, nnodes=1),
                a_run({"values": IN_TOKENS, "verdict": "INVALID"}, nnodes=4),
            ],
            [Measured(1, 8, Mesh(dp_replicate=8), 200.0), Measured(2, 8, Mesh(dp_shard=8, tp=2), 200.0)],
            id="the fewest devices first, no invalid round",
        ),
    ],
)
def test_measured(runs: list[Summary], measured: list[Measured]) -> None:
    assert measured_scales(runs, PREDICTED) == measured


@pytest.mark.parametrize(
    ("run", "message"),
    [
        pytest.param(
            a_run({"values": IN_TOKENS}, size="tiny"),
            "the measured run is of another case, size or product\n"
            "  where:   a run\n  key:     measured\n  given:   resnet50, tiny, X1\n  allowed: resnet50, full, X1",
            id="another size",
        ),
        pytest.param(
            a_run({"values": {}}),
            "the runs have no throughput of a round that counts\n  where:   command line\n  key:     measured",
            id="no throughput",
        ),
    ],
)
def test_refused(run: Summary, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        measured_scales([run], PREDICTED)
    assert str(caught.value) == message


def test_beside_the_prediction() -> None:
    """The same nodes and mesh: in the table and in a sentence. Others: a point of the plot."""
    scales = [scale(nnodes) for nnodes in (1, 2)]
    runs = [Measured(1, 8, scales[0].mesh, 5.0), Measured(4, 8, Mesh(dp_replicate=32), 18.0)]
    assert [row["measured"] for row in scale_rows(scales, runs)] == ["5", "–"]
    assert list(measured_lines(scales[0], runs)) == [
        "measured on 1 x 8 devices: 5 samples/s, 62.5 % of the eager bound, 62.5 % of the fused bound",
        "measured on 4 x 8 devices: 18 samples/s",
    ]
    assert '"name":"measured","points":[[8.0,5.0],[32.0,18.0]]' in prediction_page("x on X1", scales, runs)
