"""The first module in which a device computes otherwise than the CPU, and the operator that does.

Both sides make one step of the reduced case from the same weights, batch and random numbers. Compared are, in this
order: the outputs of all modules as they come, the gradients of these outputs as they come, and the updates that the
optimizer makes of equal gradients. Then the CPU's step is made again, each operator on both sides with equal inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.adapter import trained_parameters
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.by_version import plain_attention
from flagperf.trainer.pytorch.datasets import load_datasets
from flagperf.trainer.pytorch.device import device_name, open_device
from flagperf.trainer.pytorch.differences import tensors
from flagperf.trainer.pytorch.host_random import HostRandom
from flagperf.trainer.pytorch.noted import Noted, apart, complete, difference, summary
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.randomness import choose_algorithms, seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task

LIMIT = 1e-4  # relative error that rounding in fp32 does not reach in one step
HOST = torch.device("cpu")
SCRIPT = """\
# Shows the difference alone: {operator} on the CPU and on {device}, with random numbers of the same shapes.
import torch
{plugin}
torch.manual_seed(0)
arguments = [{arguments}]
there = [value.to("{device}") if isinstance(value, torch.Tensor) else value for value in arguments]
host, device = (torch.ops.{operator}(*inputs{keywords}) for inputs in (arguments, there))
host, device = (value[0] if isinstance(value, tuple) else value for value in (host, device))
print("relative error:", float((device.cpu() - host).norm() / host.norm()))
"""


class Side:
    """One step of a network on a device: what its modules gave, in the order in which it came."""

    def __init__(self, config: Mapping[str, Any], settings: Settings, device: torch.device, world: World) -> None:
        self.settings, self.device = settings, device
        seed_all(settings.seed)
        self.task: Task = component(config, "task")
        self.network = build_network(config, settings, self.task, device, world)
        self.optimizer: Optimizer = component(config, "optimizer", trained_parameters(self.task, self.network))
        self.outputs: list[Noted] = []
        self.gradients: list[Noted] = []

    def loss(self, batch: Any) -> Tensor:
        """The loss of a batch, with the random numbers of the seed."""
        self.network.train()
        with HostRandom(self.settings.seed).drawing():
            return self.task.loss(self.network, self.task.to_device(batch, self.device, torch.contiguous_format))

    def step(self, batch: Any) -> None:
        """Forward and backward, with notes."""
        hooks = [
            module.register_forward_hook(partial(self._note, name)) for name, module in self.network.named_modules()
        ]
        loss = self.loss(batch)
        self.outputs.append(complete("loss", loss))
        loss.backward()  # type: ignore[no-untyped-call]
        for hook in hooks:
            hook.remove()

    def _note(self, name: str, _: nn.Module, __: Any, output: Any) -> None:
        for tensor in tensors(output):
            if tensor.is_floating_point():
                self.outputs.append(summary(name, tensor))
                if tensor.requires_grad:
                    note = partial(self._note_gradient, name)
                    tensor.register_hook(note)  # type: ignore[no-untyped-call]

    def _note_gradient(self, name: str, gradient: Tensor) -> None:
        self.gradients.append(summary(name, gradient))

    def parameter_gradients(self) -> list[Noted]:
        """Those of all parameters that have one."""
        named = self.network.named_parameters()
        return [complete(name, parameter.grad) for name, parameter in named if parameter.grad is not None]

    def updated(self, gradients: Sequence[Noted]) -> list[Noted]:
        """How an optimizer step with these gradients changes the parameters."""
        values = {note.name: note.value for note in gradients}
        parameters = dict(self.network.named_parameters())
        before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            parameter.grad = values[name].to(self.device) if name in values else None
        self.optimizer.step()
        return [complete(name, parameter.detach() - before[name]) for name, parameter in parameters.items()]


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls each operator of the host on a device, too, with equal inputs, and notes the first difference."""

    def __init__(self, device: torch.device, plugin: str | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device, self.plugin = device, plugin
        self.first: dict[str, Any] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.first or not computes(operator, args):
            return operator(*args, **kwargs)
        there = tree_map(self._moved, (args, kwargs))  # before: the operator may work in place
        result = operator(*args, **kwargs)
        try:
            other = operator(*there[0], **there[1])
        except (RuntimeError, NotImplementedError):  # the CPU's own operator, such as its fused attention
            return result
        for mine, others in zip(tensors([result]), tensors([other])):
            if mine.is_floating_point() and difference(mine, others.cpu())["error"] > LIMIT:
                self.first = self._description(operator, args, kwargs, mine, others.cpu())
                break
        return result

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return self.device
        return value.detach().clone().to(self.device) if isinstance(value, Tensor) else value

    def _description(self, operator: Any, args: Any, kwargs: Any, mine: Tensor, other: Tensor) -> dict[str, Any]:
        position = int((mine - other).abs().flatten().argmax())
        inputs = list(tensors(list(args)))
        name = str(operator)
        return {
            **difference(mine, other),
            "operator": name,
            "shapes": [list(tensor.shape) for tensor in inputs],
            "types": [str(tensor.dtype) for tensor in inputs],
            "host": float(mine.flatten()[position]),
            "there": float(other.flatten()[position]),
            "script": SCRIPT.format(
                operator=name,
                device=self.device.type,
                plugin=f"import {self.plugin}" if self.plugin else "",
                arguments=", ".join(map(written, args)),
                keywords="".join(f", {key}={written(value)}" for key, value in kwargs.items()),
            ),
        }


def locate(config: Mapping[str, Any]) -> dict[str, Any]:
    """Where a device first computes otherwise than the CPU.

    Returns:
        `compared`: output, gradient or update, "" where all agree; `module`, `error` and `cosine`; and where an
        operator differs with equal inputs, `operator` with its `shapes`, `types`, numbers and `script`.
    """
    settings, world = Settings.read(config), World.of()
    device = open_device(config["vendor"], world)
    choose_algorithms(settings)
    Precision("fp32", device)
    datasets = load_datasets(config, settings, world, HOST)
    try:
        batch = next(iter(datasets.train_loader))
    finally:
        datasets.close()
    host, there = (Side(config, settings, side_device, world) for side_device in (HOST, device))
    located = {
        "device": device_name(device),
        "limit": LIMIT,
        **(first_difference(host, there, batch) or {"compared": ""}),
    }
    again, operators = Side(config, settings, HOST, world), Operators(device, config["vendor"]["plugin"])
    with plain_attention(), operators:  # the host's fused attention is an operator that no device has
        again.loss(batch).backward()  # type: ignore[no-untyped-call]
        again.optimizer.step()
    return {**located, "operator": operators.first}


def first_difference(host: Side, there: Side, batch: Any) -> dict[str, Any] | None:
    """The first tensor in which two sides differ."""
    for side in (host, there):
        side.step(batch)
    gradients = host.parameter_gradients()
    pairs = {
        "output": (host.outputs, there.outputs),
        "gradient of the output": (host.gradients, there.gradients),
        "gradient of a parameter": (gradients, there.parameter_gradients()),
    }
    return next(differing(pairs), None) or next(
        differing({"update": (host.updated(gradients), there.updated(gradients))}), None
    )


def differing(pairs: Mapping[str, tuple[Sequence[Noted], Sequence[Noted]]]) -> Iterator[dict[str, Any]]:
    """What differs, in order."""
    for compared, (ours, theirs) in pairs.items():
        for mine, other in zip(ours, theirs):
            numbers = apart(mine, other)
            if numbers["error"] > LIMIT or mine.name != other.name:
                yield {"compared": compared, "module": mine.name, **numbers}


def computes(operator: Any, args: Any) -> bool:
    """Whether an operator computes from numbers alone: neither draws, nor makes a view, nor leaves memory as it is."""
    has_numbers = any(tensor.is_floating_point() for tensor in tensors(list(args)))
    draws, name = torch.Tag.nondeterministic_seeded in operator.tags, operator._schema.name
    return has_numbers and not (operator.is_view or draws or "empty" in name)


def written(value: Any) -> str:
    """An argument as Python: a tensor as random numbers of its shape and type."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            return f"torch.randn({list(value.shape)}).to({value.dtype})"
        return f"torch.zeros({list(value.shape)}, dtype={value.dtype})"
    return f"[{', '.join(map(written, value))}]" if isinstance(value, (list, tuple)) else repr(value)
