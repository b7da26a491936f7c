"""A vendor's network in a training: compared with the case's own at random steps, of which nothing stays."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import toy

from flagperf.results.compared import IN_FP32
from flagperf.trainer.start.extension import apply_extension

STEPS = 70  # the first comparison after step 20 is made before step 61
VENDOR = {"name": "cpu", "device": "cpu", "backend": "gloo", "plugin": None, "visible_devices": None}
WRAPPED = {"names": {r"^body\.": ""}}


def train(folder: Path, **extension: Any) -> tuple[list[float], dict[str, Any]]:
    """Losses and FINISHED of a training in which much is dropped out."""
    network = {"_target_": "toy.network", "dropout": 0.5}
    settings = {"max_steps": STEPS, "max_epochs": None, "network": network}
    folder.mkdir(exist_ok=True)
    events = toy.train(apply_extension(toy.config(vendor={**VENDOR, "extension": extension}, **settings)), folder)
    return toy.losses(events), dict(events[-1].value)


@pytest.mark.parametrize(
    "extension",
    [
        pytest.param({"network_hook": "kernels.Wrapped", **WRAPPED}, id="a hook"),
        pytest.param({"replace": {"network": {"_target_": "kernels.network"}}, **WRAPPED}, id="a network"),
    ],
)
def test_an_honest_network_trains_as_without_comparisons(tmp_path: Path, extension: dict[str, Any]) -> None:
    alone, _ = train(tmp_path / "alone")
    losses, finished = train(tmp_path / "own", **extension)
    assert losses == alone
    assert finished["comparisons"] >= 2
    assert (finished["comparison_loss"], finished["comparison_gradients"]) == pytest.approx((0, 0), abs=1e-5)
    assert 0 < finished["comparison_time"] <= finished["checkpoint_time"]  # no part of any step


def test_a_network_that_stops_computing_after_the_steps_of_a_proof(tmp_path: Path) -> None:
    _, finished = train(tmp_path, network_hook="kernels.Lasting", **WRAPPED)
    assert finished["comparison_gradients"] > IN_FP32[1]


def test_a_network_of_other_layers_trains_on_and_differs_without_end(tmp_path: Path) -> None:
    _, finished = train(tmp_path, replace={"network": {"_target_": "kernels.wide"}})
    assert (finished["stop_reason"], finished["comparison_loss"], finished["comparison_gradients"]) == (
        "max_steps",
        math.inf,
        math.inf,
    )


def test_what_else_a_vendor_has_is_not_compared(tmp_path: Path) -> None:
    _, finished = train(tmp_path, replace={"optimizer": {"_target_": "kernels.SGD"}})
    assert (finished["comparisons"], finished["comparison_time"]) == (0, 0)
