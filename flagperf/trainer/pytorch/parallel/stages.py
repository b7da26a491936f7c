"""Stages of a network: each has some of its blocks, one after the other, and passes its output to the next stage.

A network in stages has one chain of blocks. Its forward pass takes `received`, the output of the stage before; None in
the first stage. Modules of other stages are Passed, and so is the output layer in all stages but the last.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from inspect import signature
from typing import Any, Callable

from torch import Tensor, nn

from flagperf.errors import ConfigError

Loss = Callable[[Any, Any], Tensor]  # network, batch → loss


class Passed(nn.Module):
    """Stands for a module of another stage: its output is its first input."""

    def forward(self, first: Any, *_: Any, **__: Any) -> Any:
        """The first input."""
        return first


class Stage(nn.Module):
    """What one stage computes: its output for the next stage, or the loss in the last stage.

    Attributes:
        batches: micro batches of the step.
        loss: of a network and a batch.
    """

    batches: Sequence[Any]
    loss: Loss

    def __init__(self, network: nn.Module, index: int, count: int, opened: Callable[[Tensor], Tensor]) -> None:
        """A stage of a network.

        Args:
            network: with the modules of this stage only.
            index: from 0.
            count: number of stages.
            opened: makes the network's input of the tensors that another rank sent.
        """
        super().__init__()
        self.network, self.index, self.is_last = network, index, index == count - 1
        self.opened = opened

    def forward(self, received: Tensor, number: Tensor | None = None, inputs: tuple[Any, Any] | None = None) -> Any:
        """Compute a micro batch, or the inputs of an evaluation.

        Args:
            received: output of the stage before. The first stage takes no notice of it.
            number: of the micro batch, [1].
            inputs: positional and named inputs of the network in an evaluation.

        Returns:
            The tensor for the next stage. In the last stage the loss, [1]; in an evaluation the output of the network.
        """

        def network(*args: Any, **kwargs: Any) -> Any:
            output = self.network(*args, **kwargs, received=self.opened(received) if self.index else None)
            if self.is_last:
                return output
            raise _Sent(output.to_local() if hasattr(output, "to_local") else output)

        try:
            if inputs is not None:
                return network(*inputs[0], **inputs[1])
            assert number is not None
            return self.loss(network, self.batches[int(number)])[None]
        except _Sent as sent:  # the loss is for the last stage
            return sent.output


class _Sent(Exception):
    """Ends the computation of a loss where the network of a stage ends."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


def stage_of_modules(network: nn.Module, blocks: Collection[nn.Module], count: int) -> dict[nn.Module, int]:
    """Each block, and each other module with parameters → its stage.

    Earlier stages have a block more where the stages cannot divide the blocks: the last stage also has the output
    layer. Modules before the first block belong to the first stage, and those behind the blocks to the last.

    Raises:
        ConfigError: there are fewer blocks than stages, or a block has buffers that training changes.
    """
    outer = [module for module in network.modules() if module in blocks]
    inside = {inner for block in outer for inner in block.modules() if inner is not block}
    outer = [block for block in outer if block not in inside]
    if len(outer) < count:
        raise ConfigError(
            "the pipeline has more stages than the network has blocks",
            where="config.yaml",
            key="parallel.mesh.pp",
            given=count,
            allowed=f"pp x parallel.stages at most {len(outer)}, the blocks of parallel.blocks",
        )
    if changing := [name for name, block in network.named_modules() if block in outer and _changes(block)]:
        raise ConfigError(
            "the blocks of a pipeline have buffers that a training changes, such as running statistics",
            where="config.yaml",
            key="parallel.mesh.pp",
            given=changing[0],
            allowed="blocks without such buffers",
        )
    stages = {block: number * count // len(outer) for number, block in enumerate(outer)}
    begun = False
    for module in network.modules():
        begun = begun or module in stages
        if module not in stages and module not in inside and next(module.parameters(recurse=False), None) is not None:
            stages[module] = count - 1 if begun else 0
    _check_shared(network, stages)
    return stages


def _check_shared(network: nn.Module, stages: Mapping[nn.Module, int]) -> None:
    """Refuse a parameter of several stages, such as that of an embedding tied to the output layer."""
    owners: dict[nn.Parameter, tuple[str, int]] = {}
    for name, module in network.named_modules():
        if module not in stages:
            continue
        for parameter in module.parameters(recurse=True):
            owner, stage = owners.setdefault(parameter, (name, stages[module]))
            if stage != stages[module]:
                raise ConfigError(
                    "two stages of the pipeline need the same parameter",
                    where="config.yaml",
                    key="parallel.mesh.pp",
                    given=f"{owner} and {name}",
                    allowed="a network whose stages have parameters of their own",
                )


def check_chain(network: nn.Module) -> None:
    """Refuse a network that cannot go on with the output of a stage before. Raises ConfigError."""
    if "received" not in signature(network.forward).parameters:
        raise ConfigError(
            "this network cannot be divided into stages of a pipeline",
            where="config.yaml",
            key="parallel.mesh.pp",
            given=type(network).__name__,
            allowed="a network whose forward takes `received`, the output of the stage before",
            advice="docs/parallel.md names the networks that a pipeline can divide",
        )


def _changes(block: nn.Module) -> bool:
    """Whether a block has buffers that belong into a checkpoint."""
    return any(name in block.state_dict() for name, _ in block.named_buffers())


def part_of(module: nn.Module, stages: Mapping[nn.Module, int], wanted: Collection[int]) -> nn.Module:
    """A network with the modules of some stages. Modules that are the same in all stages are shared."""
    if stages.get(module) is not None and stages[module] not in wanted:
        return Passed()
    children = {name: part_of(child, stages, wanted) for name, child in module.named_children()}
    if all(child is module.get_submodule(name) for name, child in children.items()):
        return module
    part = copy.copy(module)
    hooks = {name: copy.copy(value) for name, value in vars(module).items() if "_hooks" in name}  # not for other parts
    part.__dict__.update(hooks, _modules={**module._modules, **children})
    return part
