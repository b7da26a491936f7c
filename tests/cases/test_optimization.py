"""Schedules and parameter groups against the formulas of the original recipes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cases.optimization import decay_except, warmup_linear_decay


def original_lr(step: int, lr: float, steps: int, warmup: float, decay_ratio: float) -> float:
    """The schedule of FlagPerf's glm as a function of the optimizer steps done."""
    grown = warmup * steps
    if step <= grown:
        return lr * step / grown
    return lr - lr * (1 - decay_ratio) * min(1.0, (step - grown) / (steps - grown))


def test_warmup_linear_decay() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1e-5)
    schedule = warmup_linear_decay(optimizer, steps=4338, warmup=0.1, decay_ratio=0.1)
    rates = []
    for _ in range(4400):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([original_lr(step, 1e-5, 4338, 0.1, 0.1) for step in range(4400)], rel=1e-9)
    assert rates[0] == 0
    assert rates[-1] == pytest.approx(1e-6)


def test_decay_except() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1, bias=False))
    decayed, others = decay_except(network, ["*.bias", "LayerNorm.*"])
    assert [id(parameter) for parameter in decayed["params"]] == [id(network[0].weight), id(network[2].weight)]
    assert "weight_decay" not in decayed
    assert [id(parameter) for parameter in others["params"]] == [
        id(network[0].bias),
        id(network[1].weight),
        id(network[1].bias),
    ]
    assert others["weight_decay"] == 0.0
