"""The identity of the recipe: the optimizer with its parameter groups, and the learning rates of its schedule.

The rates of the first, the 100th and the last step are computed twice: by a copy of the training's schedule, and by the
case's classes, imported again since a plug-in may have changed them.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.optim import Optimizer

from flagperf.contract.components import class_path, component
from flagperf.trainer.identity.network import group_identity
from flagperf.trainer.loop.schedule import Intervals, schedule_identity
from flagperf.trainer.pytorch.by_version import newest_group, step_of
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.start.extension import Rename
from flagperf.trainer.start.imports import imported_anew

SCHEDULERS = ("torch.optim.lr_scheduler", "cases.schedules")  # modules whose classes schedules use
Rates = Dict[str, Optional[float]]
Groups = List[List[Tuple[str, int]]]  # of each parameter of each group: name, and how many numbers
STEPPED = 1000  # steps that a schedule makes; a formula gives later rates
# Hyper-parameters of the schedule (timm keeps a copy of them), and those that choose a kernel, not the algorithm.
FREE = ("params", "lr", "initial_lr", "max_lr_snapshot", "fused", "foreach", "capturable", "differentiable")


def optimizer_of(
    optimizer: Optimizer,
    network: nn.Module,
    rename: Rename = str,
    merge: Callable[[Groups], Groups] = lambda groups: groups,
) -> dict[str, Any]:
    """Class of the optimizer, module of its step's code, and parameter groups with their hyper-parameters.

    Args:
        rename: the network's name of a parameter → the case's name.
        merge: the groups of this rank's parameters → those of all parameters.
    """
    names = {id(parameter): rename(name) for name, parameter in network.named_parameters()}
    unknown = "not in the network"
    groups = [
        [(names.get(id(parameter), unknown), parameter.numel()) for parameter in group["params"]]
        for group in optimizer.param_groups
    ]
    step: Any = step_of(optimizer)
    return {
        "class": class_path(optimizer),
        "step": getattr(step, "__globals__", {}).get("__name__", type(step).__module__),
        "groups": [
            group_identity(
                [size for _, size in members],
                (name for name, _ in members),
                **{name: plain(value) for name, value in newest_group(optimizer, group).items() if name not in FREE},
            )
            for group, members in zip(optimizer.param_groups, merge(groups))
        ],
    }


def plain(value: Any) -> Any:
    """A hyper-parameter as a plain value of YAML."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def schedule_of(parts: Parts) -> dict[str, Any]:
    """The learning rates of chosen steps, of the first parameter group; None where they are unknown."""

    def training_rates(intervals: Intervals) -> Rates | None:
        with contextlib.suppress(Exception):  # a user's schedule may need more than steps, or allow no copy
            return rates(*copied(parts.scheduler, parts.optimizer), intervals)
        return None

    def case_rates(made_by: str, intervals: Intervals) -> Rates | None:
        with contextlib.suppress(Exception):
            return rates(*_case_schedule(parts.config, made_by), intervals)
        return None

    batches = parts.datasets.train_batches
    return schedule_identity(parts.config, parts.settings, batches, parts.scheduler, training_rates, case_rates)


# ---------------------------------------------------------------- two schedules without a training


def stand_in(groups: Sequence[Mapping[str, Any]], lr: Any) -> Optimizer:
    """An optimizer of the same groups without the network's parameters."""
    stand_ins = [
        {"params": [torch.zeros(())], **{name: group[name] for name in group if name != "params"}} for group in groups
    ]
    return Optimizer(stand_ins, {"lr": lr})


def copied(scheduler: Any, optimizer: Optimizer) -> tuple[Any, Optimizer]:
    """A copy of a schedule, with an optimizer of its own. The network's parameters are not copied."""
    other = stand_in(optimizer.param_groups, optimizer.defaults["lr"])
    return copy.deepcopy(scheduler, {id(optimizer): other}), other


def _case_schedule(config: Mapping[str, Any], made_by: str) -> tuple[Any, Optimizer]:
    """The schedule of the configuration, by its classes imported again from the disk, and its optimizer.

    Args:
        made_by: path of the class or function that makes the schedule; empty: the case has none.
    """
    optimizer = stand_in([{}], config["optimizer"]["lr"])
    if not made_by:
        return None, optimizer
    with imported_anew([*SCHEDULERS, made_by.rpartition(".")[0]]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return component({"made": {**config["lr_scheduler"], "_target_": made_by}}, "made", optimizer), optimizer


# ---------------------------------------------------------------- rates


def rates(scheduler: Any, optimizer: Optimizer, intervals: Intervals) -> Rates:
    """Step → rate of the first group. This steps the schedule, which cannot be used afterwards."""
    rates_by_step: Rates = {}
    stepped = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an optimizer without steps
        for step, interval in intervals.items():
            if scheduler is not None and interval > STEPPED:
                rates_by_step[str(step)] = _closed_form(scheduler, interval)
                continue
            for _ in range(interval - stepped if scheduler is not None else 0):
                scheduler.step()
            stepped = interval
            rates_by_step[str(step)] = float(optimizer.param_groups[0]["lr"])
    return rates_by_step


def _closed_form(scheduler: Any, interval: int) -> float | None:
    """The rate after `interval` steps of the schedule, without making them; None where its class has no formula."""
    parts = scheduler._schedulers if type(scheduler).__name__ == "ChainedScheduler" else [scheduler]
    factors = []
    for part in parts:
        stepped = copy.copy(part)
        stepped.last_epoch = interval
        if hasattr(stepped, "lr_lambdas"):
            factors.append(float(stepped.lr_lambdas[0](interval)))
        elif hasattr(stepped, "_get_closed_form_lr"):
            factors.append(float(stepped._get_closed_form_lr()[0]) / float(stepped.base_lrs[0]))
        else:
            return None
    return float(parts[0].base_lrs[0]) * math.prod(factors)
