"""Schedules and parameter groups against the formulas of the original recipes."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
from timm.scheduler import CosineLRScheduler
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, MultiStepLR, SequentialLR

from cases.optimization import (
    chain,
    decay_except,
    piecewise_constant,
    warmup_cosine,
    warmup_cosine_of_epochs,
    warmup_linear_decay,
)


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


def rates(schedule: LRScheduler, intervals: int) -> list[float]:
    """The learning rate of each interval."""
    found = []
    for _ in range(intervals):
        found.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return found


def sgd(lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)


@pytest.mark.parametrize(
    ("lr", "epochs", "warmup", "decay"),
    [pytest.param(0.003, 300, 30, 0.033, id="vit"), pytest.param(0.5, 600, 5, 0.01, id="efficientnet")],
)
def test_warmup_cosine_equals_torchvision_recipe(lr: float, epochs: int, warmup: int, decay: float) -> None:
    optimizer = sgd(lr)
    parts = [
        LinearLR(optimizer, start_factor=decay, total_iters=warmup),
        CosineAnnealingLR(optimizer, T_max=epochs - warmup, eta_min=0.0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR warns about itself
        original = rates(SequentialLR(optimizer, parts, milestones=[warmup]), epochs)
    assert rates(warmup_cosine(sgd(lr), epochs, warmup, decay), epochs) == pytest.approx(original, rel=1e-6, abs=1e-12)


def test_warmup_cosine_of_epochs_equals_timm() -> None:
    """Swin's recipe: all rates are for 512 images, and grow with the batch of the job."""
    epochs, warmup, images, batch = 30, 2, 2**16 + 100, 4 * 2 * 256
    steps = images // batch
    scale = batch / 512
    optimizer = sgd(5e-4 * scale)
    timm = CosineLRScheduler(
        optimizer,
        t_initial=(epochs - warmup) * steps,
        lr_min=5e-6 * scale,
        warmup_lr_init=5e-7 * scale,
        warmup_t=warmup * steps,
        warmup_prefix=True,
        t_in_epochs=False,
    )
    original = []
    for step in range(epochs * steps):
        timm.step_update(step)
        original.append(optimizer.param_groups[0]["lr"])
    schedule = warmup_cosine_of_epochs(
        sgd(5e-4),
        epochs,
        warmup,
        epoch_samples=images,
        step_samples=[256, 1, 2, 4],
        lr_samples=512,
        start_factor=1e-3,
        end_factor=1e-2,
    )
    assert rates(schedule, epochs * steps) == pytest.approx(original, rel=1e-9)


def test_chain_equals_big_transfer() -> None:
    """Its warm-up and its steps down are functions of the optimizer step."""

    def original(step: int) -> float:
        reductions = sum(step >= reduction for reduction in (3000, 6000, 9000, 10000))
        return 0.003 * min(1.0, step / 500) / 10**reductions

    warm_up = partial(LinearLR, start_factor=1e-6, total_iters=500)
    steps_down = partial(MultiStepLR, milestones=[3000, 6000, 9000, 10000], gamma=0.1)
    found = rates(chain(sgd(0.003), [warm_up, steps_down]), 10_100)
    assert found == pytest.approx([original(step) for step in range(10_100)], rel=1e-6, abs=4e-9)


def test_piecewise_constant() -> None:
    """Tacotron 2's schedule: lr falls by 0.3 and 1/3 in turn."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    found = rates(piecewise_constant(optimizer, milestones=[2, 3, 5], factors=[0.3, 0.1, 0.03]), 7)
    assert found == pytest.approx([0.1, 0.1, 0.03, 0.01, 0.01, 0.003, 0.003])
