"""The identity of network and optimizer, for BUILT and for the statement of a case."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import paddle
from paddle import nn

from flagperf.contract.components import class_path, component
from flagperf.trainer.identity.network import group_identity, network_identity
from flagperf.trainer.identity.stated import stated_case


def fingerprint(network: nn.Layer) -> dict[str, Any]:
    """Number of parameters, digests of tensors and layers, and how many layers there are of each class."""
    tensors = [(name, "parameter", tensor) for name, tensor in network.named_parameters()]
    tensors += [(name, "buffer", tensor) for name, tensor in network.named_buffers()]
    layers = ((name, class_path(layer)) for name, layer in network.named_sublayers(include_self=True))
    return network_identity(sum(int(parameter.size) for parameter in network.parameters()), tensors, layers)


def optimizer_of(optimizer: Any, network: nn.Layer) -> dict[str, Any]:
    """Class of the optimizer, module of its step's code, and parameter groups with their hyper-parameters."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    step: Any = inspect.unwrap(optimizer.step)
    return {
        "class": class_path(optimizer),
        "step": getattr(step, "__globals__", {}).get("__name__", type(step).__module__),
        "groups": [
            group_identity(
                [int(parameter.size) for parameter in group["params"]],
                (names.get(id(parameter), "not in the network") for parameter in group["params"]),
                **{name: value for name, value in group.items() if isinstance(value, (bool, int, float, str))},
            )
            for group in optimizer._param_groups
            if isinstance(group, Mapping)
        ],
    }


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The statement of a case in the size of the configuration. It needs no data."""
    task = component(config, "task")
    with paddle.LazyGuard():  # shapes only
        network = component(config, "network")
    groups = task.parameters(network)
    task_groups = [{key: value for key, value in group.items() if key != "params"} for group in groups]
    optimizer = optimizer_of(component(config, "optimizer", learning_rate=1.0, parameters=groups), network)
    schedule = component(config, "lr_scheduler", config["lr"])
    return stated_case(config, fingerprint(network), task.operations(network, config), optimizer, task_groups, schedule)
