"""The lines that explain exit code 6."""

from __future__ import annotations

from typing import Any

import pytest
from example_results import a_result
from test_report import a_summary

from flagperf.contract.target import Target
from flagperf.report import unmet_lines

GOAL = Target("acc1", 95, "higher", "%", {"loss": 0.5})
VALUES = {"final_acc1": 61.25, "final_loss": 0.4, "stop_reason": "max_steps"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param({"target_reached": False}, "acc1 61.25, loss 0.4 instead of {}, ended by max_steps", id="missed"),
        pytest.param({}, "acc1 61.25, loss 0.4 instead of {}, ended by max_steps", id="ended by the user's limit"),
        pytest.param({"values": {"final_acc1": 99}}, "{} is not known: loss was not measured", id="not measured"),
        pytest.param({"synthetic": True}, "{} does not apply to synthetic data", id="synthetic"),
        pytest.param({"sample_data": True}, "{} does not apply to sample data", id="sample data, full size"),
        pytest.param({"other_data": "9 images"}, "{} does not apply to other data (9 images)", id="other data"),
        pytest.param({"target": None}, "the case has no target", id="no target"),
        pytest.param({"target_reached": True}, None, id="reached"),
    ],
)
def test_each_round_that_did_not_show_its_target_is_named(changed: dict[str, Any], why: str | None) -> None:
    result = a_result(**{"target": GOAL, "target_reached": None, "values": VALUES, **changed})
    reached = a_result(round=2, target_reached=True)
    lines = unmet_lines([a_summary(result, reached, name="job", require_target=True)])
    begin = "target not reached (require_target=true): job, round 1: "
    assert lines == ([begin + why.format("acc1 ≥ 95 % and loss ≥ 0.5 %")] if why else [])
    assert unmet_lines([a_summary(result, reached, require_target=False), a_summary(result)]) == []
    failed = a_result(round=2, status="failed", verdict="INVALID")
    assert unmet_lines([a_summary(result, failed, require_target=True)]) == []  # exit code 5 has lines of its own
