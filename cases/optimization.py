"""Learning-rate schedules and parameter groups of the original recipes that no library has in their units."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ChainedScheduler, LambdaLR, LinearLR, LRScheduler, MultiStepLR

from cases.schedules import decay_from_start
from flagperf.trainer.pytorch.case_classes import class_name


def warmup_linear_decay(optimizer: Optimizer, steps: int, warmup: float, decay_ratio: float) -> LambdaLR:
    """From 0 to the optimizer's lr in the share `warmup` of `steps`, then linearly to lr * decay_ratio at `steps`."""
    from transformers import get_polynomial_decay_schedule_with_warmup  # a heavy import, for the cases that use it

    return get_polynomial_decay_schedule_with_warmup(
        optimizer,
        num_warmup_steps=warmup * steps,
        num_training_steps=steps,
        lr_end=optimizer.defaults["lr"] * decay_ratio,
    )


def linear_decay_from_start(optimizer: Optimizer, steps: int, warmup: float) -> LambdaLR:
    """The schedule of bert, from `steps`, and `warmup` as a share of them."""
    return LambdaLR(optimizer, decay_from_start(steps, warmup))


def warmup_cosine(
    optimizer: Optimizer,
    total: float,
    warmup: float,
    start_factor: float = 0.0,
    end_factor: float = 0.0,
    cosine_start: float | None = None,
) -> LambdaLR:
    """Linearly from lr * start_factor to lr at `warmup`, then along a half cosine to lr * end_factor at `total`.

    Args:
        total, warmup: in intervals of the schedule, steps or epochs.
        cosine_start: the interval in which the cosine is at lr; that of `warmup` if None.
    """
    start = warmup if cosine_start is None else cosine_start

    def factor(interval: int) -> float:
        if interval < warmup:
            return start_factor + (1 - start_factor) * interval / warmup
        progress = min(1.0, (interval - start) / (total - start))
        return end_factor + (1 - end_factor) * (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, factor)


def warmup_constant(optimizer: Optimizer, warmup: int) -> LambdaLR:
    """Linearly from lr / warmup in the first step to lr in step `warmup`, then lr, as in torchtitan."""
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / max(1, warmup)))


def warmup_cosine_of_epochs(
    optimizer: Optimizer,
    epochs: float,
    warmup_epochs: float,
    epoch_samples: int,
    step_samples: Sequence[int],
    lr_samples: int,
    start_factor: float = 0.0,
    end_factor: float = 0.0,
) -> LambdaLR:
    """`warmup_cosine` over epochs, for an lr that is given for a batch of `lr_samples` and grows with the batch.

    The cosine counts from the first epoch on, as timm's CosineLRScheduler does in Swin's recipe: where the warm-up is
    over, lr falls to the cosine's value there.

    Args:
        epoch_samples: samples of the training data.
        step_samples: factors of the samples in one optimizer step of the whole job: batch size, micro steps, ranks.
    """
    batch = math.prod(step_samples)
    for group in optimizer.param_groups:
        group["lr"] *= batch / lr_samples
    steps = epoch_samples // batch
    return warmup_cosine(optimizer, epochs * steps, warmup_epochs * steps, start_factor, end_factor, cosine_start=0)


def piecewise_constant(optimizer: Optimizer, milestones: Sequence[int], factors: Sequence[float]) -> LambdaLR:
    """The optimizer's lr up to the first milestone, then lr times the factor of the last milestone that was passed.

    `milestones` are in intervals of the schedule, steps or epochs.
    """
    return LambdaLR(optimizer, lambda interval: [1.0, *factors][bisect_right(milestones, interval)])


def warmup_multistep_of_epochs(
    optimizer: Optimizer,
    milestones: Sequence[int],
    gamma: float,
    warmup_steps: int,
    start_factor: float,
    epoch_samples: int,
    step_samples: Sequence[int],
) -> ChainedScheduler:
    """lr * gamma after each of the epochs in `milestones`, and a linear warm-up that ends with the first epoch at most.

    Args:
        warmup_steps: optimizer steps from lr * start_factor to lr.
        epoch_samples, step_samples: as in `warmup_cosine_of_epochs`.
    """
    steps = epoch_samples // math.prod(step_samples)
    warmup = LinearLR(optimizer, start_factor, total_iters=max(1, min(warmup_steps, steps - 1)))
    return ChainedScheduler([warmup, MultiStepLR(optimizer, [epoch * steps for epoch in milestones], gamma)])


def chain(optimizer: Optimizer, schedules: Sequence[Callable[[Optimizer], LRScheduler]]) -> ChainedScheduler:
    """Schedules at the same time, such as a warm-up beside steps down: their factors multiply."""
    return ChainedScheduler([schedule(optimizer) for schedule in schedules])


def decay_except(network: nn.Module, patterns: Sequence[str]) -> list[dict[str, Any]]:
    """Two parameter groups: weight decay acts on all but the parameters that match a pattern.

    Patterns are those of a shell, of "<class of the module>.<name of the parameter in it>": `BatchNorm2d.*`, `*.bias`.
    The class is that of the case's network, also where a run has replaced it.
    """
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        module, _, parameter_name = name.rpartition(".")
        path = f"{class_name(network, module)}.{parameter_name}"
        (others if any(fnmatchcase(path, pattern) for pattern in patterns) else decayed).append(parameter)
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
