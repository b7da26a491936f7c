"""The learning rates that a rank computes beforehand are those that it will train with, also far ahead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from cases.optimization import chain, warmup_cosine, warmup_multistep_of_epochs
from flagperf.trainer.pytorch import recipe

Make = Callable[[torch.optim.Optimizer], Any]
SCHEDULES: dict[str, Make] = {
    "steps": partial(lr_scheduler.StepLR, step_size=7, gamma=0.9),
    "linear": partial(lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.1, total_iters=100),
    "cosine with warm-up": partial(warmup_cosine, total=130, warmup=20, start_factor=0.1),
    "several steps with warm-up": partial(
        warmup_multistep_of_epochs,
        milestones=[3, 9],
        gamma=0.1,
        warmup_steps=8,
        start_factor=0.01,
        epoch_samples=100,
        step_samples=[5, 2],
    ),
    "chained": partial(
        chain,
        schedules=[
            partial(lr_scheduler.LinearLR, start_factor=0.1, total_iters=10),
            partial(lr_scheduler.MultiStepLR, milestones=[50], gamma=0.5),
        ],
    ),
    "one that only its steps know": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.ConstantLR(optimizer, 0.5, 10), lr_scheduler.ExponentialLR(optimizer, 0.9)],
        milestones=[10],
    ),
}
INTERVALS = {1: 0, 100: 99, 120: 119}


@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES.keys())
@pytest.mark.filterwarnings("ignore:Detected call of:UserWarning")
def test_rates(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stepped, and by the formula; neither touches the schedule that trains."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.3)
    scheduler = make(optimizer)
    stepped = recipe.rates(*recipe.copied(scheduler, optimizer), INTERVALS)
    monkeypatch.setattr(recipe, "STEPPED", -1)
    by_formula = recipe.rates(*recipe.copied(scheduler, optimizer), INTERVALS)
    real = []
    for _ in range(120):
        real.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    expected = {str(step): real[interval] for step, interval in INTERVALS.items()}
    assert stepped == pytest.approx(expected)
    known = {step: rate for step, rate in by_formula.items() if rate is not None}
    assert known == pytest.approx(expected if known else {})
    assert bool(known) == (type(scheduler) is not lr_scheduler.SequentialLR)


def test_modules_imported_anew_are_gone_afterwards() -> None:
    before = torch.optim.lr_scheduler
    with recipe.imported_anew(recipe.SCHEDULERS):
        assert torch.optim.lr_scheduler is not before
    assert torch.optim.lr_scheduler is before
