"""What identifies network and optimizer: in BUILT, and as a case states them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from mindspore import Parameter, nn

from flagperf.contract.components import component, path_of
from flagperf.trainer.identity.network import group_identity, network_identity
from flagperf.trainer.identity.stated import stated_case


def fingerprint(network: nn.Cell) -> dict[str, Any]:
    """Number of parameters, digests of tensors and cells, and how many cells there are of each class.

    MindSpore calls what batch norm keeps (moving means and variances) parameters that are not trained. Like PyTorch's
    buffers they are no parameters here.
    """
    tensors = ((one.name, "parameter" if one.requires_grad else "buffer", one) for one in network.get_parameters())
    cells = ((name, path_of(cell)) for name, cell in network.cells_and_names())
    return network_identity(count(network.trainable_params()), tensors, cells)


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


def decays_of(optimizer: nn.Optimizer) -> list[tuple[Parameter, float]]:
    """Each parameter and its weight decay, which MindSpore holds once, or for each parameter of given groups."""
    own = optimizer.weight_decay
    decays = own if isinstance(own, tuple) else [own] * len(optimizer.parameters)
    flagged = zip(optimizer.parameters, decays, optimizer.decay_flags)
    return [(parameter, number(decay) if decayed else 0.0) for parameter, decay, decayed in flagged]


def number(tensor: Any) -> float:
    """A tensor's one number, with the seven digits that a float32 has."""
    return float(f"{float(tensor):.7g}")


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a case states in the size of the configuration. No data is needed."""
    task, network = component(config, "task"), component(config, "network")
    optimizer = optimizer_of(component(config, "optimizer", task.parameters(network), learning_rate=1.0))
    own: list[dict[str, Any]] = [{}] * len(optimizer["groups"])
    schedule = component(config, "lr_scheduler", config["lr"], 1)
    return stated_case(config, fingerprint(network), task.operations(network, config), optimizer, own, schedule)
