"""BUILT: what this rank really built, after every import and plug-in. The verdict holds it against the case."""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

import paddle
from paddle import nn

from flagperf.contract.components import component, path_of
from flagperf.contract.digest import digest
from flagperf.trainer.identity.software import software
from flagperf.trainer.loop.schedule import intervals_of
from flagperf.trainer.paddle.build import Parts
from flagperf.trainer.paddle.device import device_name
from flagperf.trainer.start.imports import imported_anew

SCHEDULERS = ("paddle.optimizer.lr", "cases.schedules")  # what schedules are made of


def built(parts: Parts) -> dict[str, Any]:
    """The value of BUILT, of this rank."""
    return {
        "device_name": device_name(parts.device),
        "data": dict(parts.data.counts),
        "network": fingerprint(parts.network),
        "optimizer": optimizer_of(parts.optimizer, parts.network),
        "schedule": schedule_of(parts),
        "software": software(parts.config, {"paddlepaddle": paddle.__version__}),
    }


def fingerprint(network: nn.Layer) -> dict[str, Any]:
    """Number of parameters, digests of tensors and layers, and how many layers there are of each class."""
    tensors = [(name, "parameter", tensor) for name, tensor in network.named_parameters()]
    tensors += [(name, "buffer", tensor) for name, tensor in network.named_buffers()]
    layers = [(name, path_of(layer)) for name, layer in network.named_sublayers(include_self=True)]
    return {
        "parameters": sum(int(parameter.size) for parameter in network.parameters()),
        "tensors": digest(f"{name} {kind} {list(one.shape)} {one.dtype}" for name, kind, one in tensors),
        "modules": digest(f"{name} {path}" for name, path in layers),
        "classes": dict(sorted(Counter(path for _, path in layers).items())),
    }


def optimizer_of(optimizer: Any, network: nn.Layer) -> dict[str, Any]:
    """Class, where the code of its step comes from, and the parameter groups with their hyper-parameters."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    step: Any = inspect.unwrap(optimizer.step)
    return {
        "class": path_of(optimizer),
        "step": getattr(step, "__globals__", {}).get("__name__", type(step).__module__),
        "groups": [
            {
                "tensors": len(group["params"]),
                "parameters": sum(int(parameter.size) for parameter in group["params"]),
                "names": digest(names.get(id(parameter), "not in the network") for parameter in group["params"]),
                **{name: value for name, value in group.items() if isinstance(value, (bool, int, float, str))},
            }
            for group in optimizer._param_groups
            if isinstance(group, Mapping)
        ],
    }


def schedule_of(parts: Parts) -> dict[str, Any]:
    """The learning rates of chosen steps, as this training will have them and as the case's own classes give them."""
    intervals, lr = intervals_of(parts.settings, parts.data.train_batches), parts.settings.lr
    stated = (parts.config.get("fingerprint") or {}).get("schedule")
    of_case = None
    if stated is not None:
        of_case = rates(case_schedule(parts.config, stated["made_by"]), lr, intervals)
    return {
        "scheduler": None if parts.schedule is None else path_of(parts.schedule),
        "interval": parts.settings.lr_interval,
        "rates": rates(parts.schedule, lr, intervals),
        "rates_of_case": of_case,
    }


def case_schedule(config: Mapping[str, Any], made_by: str) -> Any:
    """The schedule of the configuration, by its own classes as they lie on the disk: a plug-in may have changed them.

    Args:
        made_by: module and name of the class or function that makes it; empty: the case has no schedule.
    """
    if not made_by:
        return None
    with imported_anew([*SCHEDULERS, made_by.rpartition(".")[0]]):
        return component({"made": {**config["lr_scheduler"], "_target_": made_by}}, "made", config["lr"])


def rates(schedule: Any, lr: float, intervals: Mapping[int, int]) -> dict[str, float]:
    """Step → learning rate where the schedule has stepped so often before. The schedule itself stays as it is."""
    found = {}
    for step, interval in intervals.items():
        asked = copy.copy(schedule)
        if asked is not None:
            asked.last_epoch = interval
        found[str(step)] = lr if asked is None else float(asked.get_lr())
    return found
