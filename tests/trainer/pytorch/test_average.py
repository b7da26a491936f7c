"""The moving average of the weights: followed by hand, evaluated in the network's place, the same on every rank."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from torch import nn

from flagperf.trainer.pytorch.parts import build_parts


class SumOfWeights(toy.Classification):
    """Its metric is linear in the weights, so that the metric of an average is the average of the metrics."""

    def evaluate(
        self,
        network: nn.Module,
        batches: Iterable[toy.Batch],  # noqa: ARG002
        device: torch.device,  # noqa: ARG002
    ) -> dict[str, Any]:
        running = [buffer for name, buffer in network.named_buffers() if "running" in name]
        tensors = {"weights": network.parameters(), "running": running}
        return {name: sum(float(tensor.double().sum()) for tensor in kind) for name, kind in tensors.items()}


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def config(**settings: Any) -> dict[str, Any]:
    parts = {name: {"_target_": f"test_average.{name}"} for name in ("SumOfWeights", "normalised")}
    own = {"task": parts["SumOfWeights"], "network": parts["normalised"], "max_steps": 8}
    return toy.config(**{**own, "eval_interval_steps": 1, "initial_evaluation": True, **settings})


def test_it_is_what_is_evaluated(tmp_path: Path) -> None:
    """Copied at the first update, then a weighted mean; buffers too. The training itself stays as it is."""
    plain, averaged = (
        toy.train(config(**settings), tmp_path) for settings in ({}, {"ema": {"decay": 0.7, "every": 3}})
    )
    assert toy.losses(averaged) == toy.losses(plain)
    assert averaged[-1].value["parameters"] == plain[-1].value["parameters"]
    for metric in ("weights", "running"):
        (initial,) = (value[metric] for value in toy.values(plain, "INIT_EVALUATION"))
        network = [initial, *(value[metric] for value in toy.values(plain, "EVALUATE"))]
        given = [value[metric] for value in toy.values(averaged, "EVALUATE")]
        mixed = 0.7 * network[3] + 0.3 * network[6]
        expected = [initial, initial, network[3], network[3], network[3], mixed, mixed, mixed]
        assert given == pytest.approx(expected, rel=1e-5), metric


def test_ranks_agree(tmp_path: Path) -> None:
    """Running statistics differ between ranks: rank 0's count, as they do without an average."""

    def rank(folder: Path) -> Any:
        return toy.train(config(ema={"decay": 0.7, "every": 1}, nproc=2, max_steps=4), folder)[-1].value

    first, second = toy.fork_ranks(rank, tmp_path)
    assert first == second
    assert first["final_running"] != 0


def test_recomputed_modules_have_an_average_of_their_own() -> None:
    """A copy of a module whose forward pass is replaced must call the copy's."""
    settings = {"activation_checkpointing": True, "checkpoint_modules": "torch.nn.Linear"}
    parts = build_parts(config(**settings, ema={"decay": 0.5, "every": 1}))
    with torch.no_grad():
        parts.network[0].weight.zero_()
        parts.network[0].bias.zero_()
        inputs = torch.ones(1, 8)
        assert parts.evaluated[0](inputs).abs().sum() > 0
        assert parts.network[0](inputs).abs().sum() == 0
