"""A pipeline in a trace: torch's own schedule runs the stages of a rank, with a process group that sends nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import PipelineStage

from flagperf.trainer.pytorch.parallel import Strategy
from flagperf.trainer.pytorch.parallel.blocks import find_blocks
from flagperf.trainer.pytorch.parallel.pipeline import Pipeline
from flagperf.trainer.pytorch.parallel.stages import Loss, Stage, stage_of_modules
from flagperf.trainer.pytorch.trace.memory import Memory
from flagperf.trainer.pytorch.trace.stand_in import CPU


class TracedRank(NamedTuple):
    """A rank that is traced."""

    position: int  # along `pp`
    alike: int  # ranks along `pp` that do the same, this one included
    ranks: int  # along `pp`
    blocks: tuple[int, ...]  # of the stages, those of other ranks included

    @property
    def stages(self) -> int:
        """How many stages the rank has."""
        return len(self.blocks) // self.ranks

    @property
    def held(self) -> int:
        """How many blocks the rank has."""
        return sum(self.blocks[self.position :: self.ranks])

    @property
    def micro_batches(self) -> tuple[int, int]:
        """Two numbers from which a step of more of them follows on a line: each phase of the schedule occurs."""
        return (self.ranks + 1, self.ranks + 2) if self.stages == 1 else (2 * self.ranks, 3 * self.ranks)


class Form(NamedTuple):
    """Of the tensor that each stage passes on."""

    shape: Sequence[int]
    stride: Sequence[int]
    dtype: torch.dtype

    def tensor(self) -> Tensor:
        """Such a tensor."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=CPU)


def traced_ranks(network: nn.Module, strategy: Any) -> list[TracedRank]:
    """The first and the last rank along `pp`, and of those between, which differ in blocks only, one for each number.

    Of ranks with the same number of blocks the first holds most: more micro batches are under way behind it.
    """
    blocks = {*find_blocks(network, strategy.sharding.blocks)}
    ranks, count = strategy.mesh.pp, strategy.mesh.pp * strategy.sharding.stages
    stages: Mapping[nn.Module, int] = stage_of_modules(network, blocks, count)
    numbers = Counter(stage for module, stage in stages.items() if module in blocks)
    along = [
        TracedRank(position, 1, ranks, tuple(numbers[stage] for stage in range(count))) for position in range(ranks)
    ]
    between: dict[int, list[TracedRank]] = {}
    for rank in along[1:-1]:
        between.setdefault(rank.held, []).append(rank)
    return [along[0], *(alike[0]._replace(alike=len(alike)) for alike in between.values()), along[-1]]


def run_pipeline(strategy: Strategy, pipeline: Pipeline, batches: Any, loss: Loss, memory: Memory, form: Form) -> None:
    """Forward and backward passes of all micro batches of this rank."""
    memory.mark(batches, "activations")
    memory.phase = "forward"
    sent: list[Tensor] = []
    pipeline.run_by(partial(TracedStage, memory=memory, form=form, sent=sent), len(batches), CPU)
    with strategy.computing():
        pipeline.train(batches, loss, CPU)
    sent.clear()
    memory.mark_living("temporary", "gradients")


def form_between(strategy: Strategy, first: Stage, batch: Any, loss: Loss) -> Form:
    """The form of the tensor that the first stage passes on: each other stage passes on such a tensor, too."""
    first.batches, first.loss = [batch], loss
    with torch.no_grad(), strategy.computing():
        sent = first(torch.empty(0), 0)
    for module in first.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    return Form(tuple(sent.shape), sent.stride(), sent.dtype)


class TracedStage(PipelineStage):
    """A stage that says where the step is, and knows what it receives without asking another rank."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        count: int,
        device: torch.device,
        *,
        group: Any,
        memory: Memory,
        form: Form,
        sent: list[Tensor],
    ) -> None:
        received, made = (form.tensor().requires_grad_() for _ in range(2))
        if number == 0:
            received = torch.zeros(1, dtype=torch.int64)  # the number of the micro batch
        if number == count - 1:
            made = torch.zeros(1, requires_grad=True)  # the loss
        super().__init__(stage, number, count, device, received, made, group=group)
        self.memory, self.sent = memory, sent

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[Any]:
        """As the base."""
        return self._kept(super().get_fwd_send_ops(fwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[Any]:
        """As the base."""
        return self._kept(super().get_bwd_send_ops(bwd_chunk_id))

    def _kept(self, operations: list[Any]) -> list[Any]:
        """The schedule of several stages waits for its messages at the end of a step; until then they hold tensors."""
        if self.num_stages > self.group_size:
            self.sent += [operation.tensor for operation in operations]
        return operations

    def forward_one_chunk(
        self, fwd_chunk_id: int, args: Any, kwargs: Any = None, save_forward_output: Any = True
    ) -> Any:
        """As the base, with the number of the micro batch as a number: a tensor has no value here."""
        self.memory.phase = "forward"
        output = super().forward_one_chunk(fwd_chunk_id, args, {**kwargs, "number": fwd_chunk_id}, save_forward_output)
        self.memory.mark_living("temporary", "activations")
        return output

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> None:
        """As the base."""
        self.memory.phase = "backward"
        super().backward_one_chunk(*args, **kwargs)
        self.memory.mark_living("temporary", "gradients")

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        """As the base: once, behind all micro batches."""
        self.memory.phase = "backward"
        super().perform_reduce_grad(grad_scale_factor)

    def scale_grads(self, grad_scale_factor: int) -> None:
        """As the base. This is no work of a micro batch."""
        self.memory.phase = "optimizer"
        super().scale_grads(grad_scale_factor)
