"""What identifies the recipe: the optimizer with its parameter groups, and the learning rates of its schedule.

The rates of the first, the 100th and the last step are computed twice: by a copy of the schedule that the training will
use, and by the classes of the case, imported once more beside those that a plug-in may have changed.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Dict, Optional

import torch
from torch import nn
from torch.optim import Optimizer

from flagperf.contract.components import component, path_of
from flagperf.trainer.identity.network import group_identity
from flagperf.trainer.loop.schedule import Intervals, schedule_identity
from flagperf.trainer.pytorch.by_version import newest_group, step_of
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.start.extension import Rename
from flagperf.trainer.start.imports import imported_anew

SCHEDULERS = ("torch.optim.lr_scheduler", "cases.schedules")  # what schedules are made of
Rates = Dict[str, Optional[float]]
STEPPED = 1000  # a schedule is stepped so far; what comes later is asked of its formula
# What belongs to the schedule, which timm keeps once more; and what chooses a kernel, not the algorithm.
FREE = ("params", "lr", "initial_lr", "max_lr_snapshot", "fused", "foreach", "capturable", "differentiable")


def optimizer_of(optimizer: Optimizer, network: nn.Module, rename: Rename = str) -> dict[str, Any]:
    """Class, where the code of its step comes from, and the parameter groups with their hyper-parameters.

    `rename`: the network's name of a parameter → the case's.
    """
    names = {id(parameter): rename(name) for name, parameter in network.named_parameters()}
    step: Any = step_of(optimizer)
    return {
        "class": path_of(optimizer),
        "step": getattr(step, "__globals__", {}).get("__name__", type(step).__module__),
        "groups": [
            group_identity(
                [parameter.numel() for parameter in group["params"]],
                (names.get(id(parameter), "not in the network") for parameter in group["params"]),
                **{name: plain(value) for name, value in newest_group(optimizer, group).items() if name not in FREE},
            )
            for group in optimizer.param_groups
        ],
    }


def plain(value: Any) -> Any:
    """A hyper-parameter as YAML has it."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def schedule_of(parts: Parts) -> dict[str, Any]:
    """The learning rates of chosen steps, of the first parameter group; None where they are not known."""

    def own(intervals: Intervals) -> Rates | None:
        with contextlib.suppress(Exception):  # a user's own schedule may want more than to be stepped, or not be copied
            return rates(*copied(parts.scheduler, parts.optimizer), intervals)
        return None

    def of_case(made_by: str, intervals: Intervals) -> Rates | None:
        with contextlib.suppress(Exception):
            return rates(*case_schedule(parts.config, made_by), intervals)
        return None

    batches = parts.datasets.train_batches
    return schedule_identity(parts.config, parts.settings, batches, parts.scheduler, own, of_case)


# ---------------------------------------------------------------- two schedules that nobody trains with


def stand_in(groups: Sequence[Mapping[str, Any]], lr: Any) -> Optimizer:
    """An optimizer of the same groups without the network's parameters."""
    own = [
        {"params": [torch.zeros(())], **{name: group[name] for name in group if name != "params"}} for group in groups
    ]
    return Optimizer(own, {"lr": lr})


def copied(scheduler: Any, optimizer: Optimizer) -> tuple[Any, Optimizer]:
    """A copy of a schedule, with an optimizer of its own. The network's parameters are not copied."""
    other = stand_in(optimizer.param_groups, optimizer.defaults["lr"])
    return copy.deepcopy(scheduler, {id(optimizer): other}), other


def case_schedule(config: Mapping[str, Any], made_by: str) -> tuple[Any, Optimizer]:
    """The schedule of the configuration, by its own classes as they lie on the disk.

    Args:
        made_by: module and name of the class or function that makes it; empty: the case has no schedule.
    """
    node = config["optimizer"]
    optimizer = stand_in([{}], node["lr"])
    if not made_by:
        return None, optimizer
    with imported_anew([*SCHEDULERS, made_by.rpartition(".")[0]]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return component({"made": {**config["lr_scheduler"], "_target_": made_by}}, "made", optimizer), optimizer


# ---------------------------------------------------------------- rates


def rates(scheduler: Any, optimizer: Optimizer, intervals: Intervals) -> Rates:
    """Step → rate of the first group, where the schedule has stepped so often before; it is used up by that."""
    found: Rates = {}
    stepped = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the optimizer makes no steps
        for step, interval in intervals.items():
            if scheduler is not None and interval > STEPPED:
                found[str(step)] = formula(scheduler, interval)
                continue
            for _ in range(interval - stepped if scheduler is not None else 0):
                scheduler.step()
            stepped = interval
            found[str(step)] = float(optimizer.param_groups[0]["lr"])
    return found


def formula(scheduler: Any, interval: int) -> float | None:
    """The rate after so many steps of the schedule, without making them; None where its class cannot tell."""
    parts = scheduler._schedulers if type(scheduler).__name__ == "ChainedScheduler" else [scheduler]
    factors = []
    for part in parts:
        asked = copy.copy(part)
        asked.last_epoch = interval
        if hasattr(asked, "lr_lambdas"):
            factors.append(float(asked.lr_lambdas[0](interval)))
        elif hasattr(asked, "_get_closed_form_lr"):
            factors.append(float(asked._get_closed_form_lr()[0]) / float(asked.base_lrs[0]))
        else:
            return None
    return float(parts[0].base_lrs[0]) * math.prod(factors)
