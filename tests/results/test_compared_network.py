"""What the comparisons of a vendor's network with the case's during a training mean for verdict and notes."""

from __future__ import annotations

from typing import Any

import pytest

from flagperf.contract.perflog import Event
from flagperf.results.compared import as_compared, compared
from flagperf.results.evidence import Evidence
from flagperf.results.rank_log import RankLog

NONE = "the vendor's own code was not compared with the case's during the training"
THRICE = (
    "the vendor's network was compared with the case's 3 times during the training, in 1.5 s outside its steps; "
    "gradients differ by {} % at most"
)
OTHER = (
    "the vendor's own code does not do in the training what the case does: at a random step, with the same weights "
    "and batch, gradients differ by 100 % (limit {} %)"
)


@pytest.mark.parametrize(
    ("config", "finished", "findings", "notes"),
    [
        pytest.param({}, (3, 0.0, 0.01), [], [THRICE.format(1)], id="the same"),
        pytest.param({}, (3, 0.0, 1.0), [("INVALID", OTHER.format(10))], [THRICE.format("1e+02")], id="another"),
        pytest.param({"precision": "amp_bf16"}, (3, 0.04, 0.4), [], [THRICE.format(40)], id="rounded"),
        pytest.param({"division": "open"}, (3, 0.0, 1.0), [], [THRICE.format("1e+02"), OTHER.format(10)], id="open"),
        pytest.param({}, (0, 0.0, 0.0), [], [NONE], id="none"),
        pytest.param({"extension": None}, None, [], [], id="nothing of its own"),
    ],
)
def test_verdict_and_notes(
    config: dict[str, Any], finished: tuple[float, ...] | None, findings: list[Any], notes: list[str]
) -> None:
    names = ("comparisons", "comparison_loss", "comparison_gradients")
    value = {**dict(zip(names, finished, strict=True)), "comparison_time": 1.5} if finished else {}
    log = RankLog(0, "here", 0, (Event("FINISHED", value),))
    asked = {"division": "closed", "precision": "fp32", "extension": {"has_code": True}, **config}
    evidence = Evidence("finished", 1, [log], config=asked)
    assert (list(as_compared(evidence)), list(compared(evidence))) == (findings, notes)
