"""The identity of network and optimizer, for BUILT and for the statement of a case."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from mindspore import Parameter, nn

from flagperf.contract.components import class_path, component
from flagperf.trainer.identity.network import group_identity, network_identity
from flagperf.trainer.identity.stated import stated_case


def fingerprint(network: nn.Cell) -> dict[str, Any]:
    """Number of parameters, digests of tensors and cells, and how many cells there are of each class.

    MindSpore counts the moving means and variances of batch norm as untrained parameters. Here they are buffers, as in
    PyTorch.
    """
    tensors = ((p.name, "parameter" if p.requires_grad else "buffer", p) for p in network.get_parameters())
    cells = ((name, class_path(cell)) for name, cell in network.cells_and_names())
    return network_identity(count(network.trainable_params()), tensors, cells)


def count(parameters: Sequence[Parameter]) -> int:
    """The number of values in all of them."""
    return sum(int(parameter.size) for parameter in parameters)


def optimizer_of(optimizer: nn.Optimizer) -> dict[str, Any]:
    """Class of the optimizer, module of its step's code, and groups: the parameters with the same weight decay."""
    groups: dict[float, list[Parameter]] = {}
    for parameter, decay in _decays_of(optimizer):
        groups.setdefault(decay, []).append(parameter)
    return {
        "class": class_path(optimizer),
        "step": inspect.unwrap(type(optimizer).construct).__globals__["__name__"],
        "groups": [
            group_identity(
                [int(parameter.size) for parameter in parameters],
                (parameter.name for parameter in parameters),
                momentum=number(optimizer.momentum),
                dampening=float(optimizer.dampening),
                nesterov=bool(optimizer.nesterov),
                weight_decay=decay,
            )
            for decay, parameters in groups.items()
        ],
    }


def _decays_of(optimizer: nn.Optimizer) -> list[tuple[Parameter, float]]:
    """Each parameter and its weight decay. MindSpore holds one decay, or one for each parameter of given groups."""
    given = optimizer.weight_decay
    decays = given if isinstance(given, tuple) else [given] * len(optimizer.parameters)
    flagged = zip(optimizer.parameters, decays, optimizer.decay_flags)
    return [(parameter, number(decay) if decayed else 0.0) for parameter, decay, decayed in flagged]


def number(tensor: Any) -> float:
    """The number in a scalar tensor, with the seven digits of a float32."""
    return float(f"{float(tensor):.7g}")


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The statement of a case in the size of the configuration. It needs no data."""
    task, network = component(config, "task"), component(config, "network")
    optimizer = optimizer_of(component(config, "optimizer", task.parameters(network), learning_rate=1.0))
    task_groups: list[dict[str, Any]] = [{}] * len(optimizer["groups"])
    schedule = component(config, "lr_scheduler", config["lr"], 1)
    return stated_case(config, fingerprint(network), task.operations(network, config), optimizer, task_groups, schedule)
