"""BUILT: what this rank really built, after every import and plug-in. The verdict holds it against the case."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import mindspore
from mindspore import Parameter, Tensor, nn

from flagperf.contract.components import component, path_of
from flagperf.contract.digest import digest
from flagperf.trainer.identity.software import software
from flagperf.trainer.loop.schedule import intervals_of
from flagperf.trainer.mindspore.build import Parts
from flagperf.trainer.mindspore.device import device_name
from flagperf.trainer.start.imports import imported_anew


def built(parts: Parts) -> dict[str, Any]:
    """The value of BUILT, of this rank."""
    return {
        "device_name": device_name(parts.device),
        "data": dict(parts.data.counts),
        "network": fingerprint(parts.network),
        "optimizer": optimizer_of(parts.optimizer),
        "schedule": schedule_of(parts),
        "software": software(parts.config, {"mindspore": mindspore.__version__}),
    }


def fingerprint(network: nn.Cell) -> dict[str, Any]:
    """Number of parameters, digests of tensors and cells, and how many cells there are of each class.

    MindSpore calls what batch norm keeps (moving means and variances) parameters that are not trained. Like PyTorch's
    buffers they are no parameters here.
    """
    tensors = [(one, "parameter" if one.requires_grad else "buffer") for one in network.get_parameters()]
    cells = [(name, path_of(cell)) for name, cell in network.cells_and_names()]
    return {
        "parameters": count(network.trainable_params()),
        "tensors": digest(f"{one.name} {kind} {list(one.shape)} {one.dtype}" for one, kind in tensors),
        "modules": digest(f"{name} {path}" for name, path in cells),
        "classes": dict(sorted(Counter(path for _, path in cells).items())),
    }


def count(parameters: Sequence[Parameter]) -> int:
    """Numbers in all of them."""
    return sum(int(parameter.size) for parameter in parameters)


def optimizer_of(optimizer: nn.Optimizer) -> dict[str, Any]:
    """Class, where the code of its step comes from, and groups: the parameters with the same weight decay."""
    decays = decays_of(optimizer)
    groups = {decay: [one for one, own in decays if own == decay] for _, decay in decays}
    return {
        "class": path_of(optimizer),
        "step": inspect.unwrap(type(optimizer).construct).__globals__["__name__"],
        "groups": [
            {
                "tensors": len(parameters),
                "parameters": count(parameters),
                "names": digest(parameter.name for parameter in parameters),
                "momentum": number(optimizer.momentum),
                "dampening": float(optimizer.dampening),
                "nesterov": bool(optimizer.nesterov),
                "weight_decay": decay,
            }
            for decay, parameters in groups.items()
        ],
    }


def decays_of(optimizer: nn.Optimizer) -> list[tuple[Parameter, float]]:
    """Each parameter and its weight decay, which MindSpore holds once, or for each parameter of given groups."""
    own = optimizer.weight_decay
    decays = own if isinstance(own, tuple) else [own] * len(optimizer.parameters)
    flagged = zip(optimizer.parameters, decays, optimizer.decay_flags)
    return [(parameter, number(decay) if decayed else 0.0) for parameter, decay, decayed in flagged]


def number(tensor: Any) -> float:
    """A tensor's one number, with the seven digits that a float32 has."""
    return float(f"{float(tensor):.7g}")


def schedule_of(parts: Parts) -> dict[str, Any]:
    """The learning rates of chosen steps, as this training will have them and as the case's own class gives them."""
    batches, lr = parts.data.train_batches, parts.settings.lr
    intervals = intervals_of(parts.settings, batches)
    stated = (parts.config.get("fingerprint") or {}).get("schedule")
    of_case = None
    if stated is not None:
        of_case = rates(case_schedule(parts.config, stated["made_by"], batches.steps_per_epoch), lr, intervals)
    return {
        "scheduler": None if parts.schedule is None else path_of(parts.schedule),
        "interval": parts.settings.lr_interval,
        "rates": rates(parts.schedule, lr, intervals),
        "rates_of_case": of_case,
    }


def case_schedule(config: Mapping[str, Any], made_by: str, steps_per_epoch: int) -> Any:
    """The schedule of the configuration, by its own class as it lies on the disk: a plug-in may have changed it.

    Args:
        made_by: module and name of the class or function that makes it; empty: the case has no schedule.
    """
    if not made_by:
        return None
    with imported_anew([made_by.rpartition(".")[0]]):
        made = {"made": {**config["lr_scheduler"], "_target_": made_by}}
        return component(made, "made", config["lr"], steps_per_epoch)


def rates(schedule: Any, lr: float, intervals: Mapping[int, int]) -> dict[str, float]:
    """Step → learning rate where the schedule has stepped so often before."""
    after = {step: Tensor([done], mindspore.int32) for step, done in intervals.items()}
    return {str(step): lr if schedule is None else number(schedule(done)) for step, done in after.items()}
