"""Pipeline parallelism: the stages of a network on the ranks along `pp`, by schedules of torch.distributed.pipelining.

A rank has one stage (1F1B), or several that lie apart (interleaved 1F1B). The micro batches are those of gradient
accumulation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Callable

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh

from flagperf.trainer.pytorch.parallel.stages import Loss, Stage, check_chain, part_of, stage_of_modules

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)  # of tensors between stages
DIMENSIONS = 6  # of these tensors, at most


class Pipeline:
    """The stages of this rank.

    Attributes:
        network: the modules of this rank's stages, under the names that they have in the whole network. A call passes
            its inputs through all stages and returns the output of the last stage, on every rank.
        stages: of this rank, by their numbers.
    """

    def __init__(
        self,
        network: nn.Module,
        blocks: Collection[nn.Module],
        mesh: DeviceMesh,
        stages_of_rank: int,
        opened: Callable[[Tensor], Tensor],
    ) -> None:
        """Divide a network.

        Args:
            mesh: along `pp`.
            opened: makes the network's input of the tensors that another rank sent.

        Raises:
            ConfigError: the network cannot be divided into so many stages.
        """
        check_chain(network)
        self.group, self.rank, self.ranks = mesh.get_group(), mesh.get_local_rank(), mesh.size()
        self.count = self.ranks * stages_of_rank
        numbers = range(self.rank, self.count, self.ranks)
        stages = stage_of_modules(network, blocks, self.count)
        self.stages = {
            number: Stage(part_of(network, stages, [number]), number, self.count, opened) for number in numbers
        }
        self.network = part_of(network, stages, numbers)
        self.network.forward = self._evaluated
        self._schedule: Any = None

    # ---------------------------------------------------------------- a step

    def train(self, batches: Sequence[Any], loss: Loss, device: torch.device) -> list[Tensor]:
        """Forward and backward passes of all micro batches, the same number in each step. Returns their losses."""
        for stage in self.stages.values():
            stage.batches, stage.loss = batches, loss
        if self._schedule is None:
            from torch.distributed.pipelining import PipelineStage

            self.run_by(PipelineStage, len(batches), device)
        numbers, losses = torch.arange(len(batches)), list[Tensor]()
        first = (numbers,) if 0 in self.stages else ()
        target = numbers if self.count - 1 in self.stages else None
        self._schedule.step(*first, number=numbers, target=target, losses=losses)
        sent = torch.stack([loss.detach() for loss in losses]) if losses else torch.empty(len(batches), device=device)
        distributed.broadcast(sent, self._global_rank(self.count - 1), group=self.group)
        return list(sent)

    def run_by(self, kind: Callable[..., Any], micro_batches: int, device: torch.device) -> None:
        """Let a schedule run the stages of this rank.

        Args:
            kind: the class of torch for a stage, or a subclass.
            micro_batches: of each step.
        """
        from torch.distributed.pipelining import Schedule1F1B, ScheduleInterleaved1F1B

        stages = [kind(stage, number, self.count, device, group=self.group) for number, stage in self.stages.items()]
        if len(stages) == 1:
            self._schedule = Schedule1F1B(stages[0], micro_batches, loss_fn=_loss)
        else:
            self._schedule = ScheduleInterleaved1F1B(stages, micro_batches, loss_fn=_loss)

    # ---------------------------------------------------------------- an evaluation

    def _evaluated(self, *args: Any, **kwargs: Any) -> Tensor:
        """The output of the whole network, on every rank: the inputs pass through one stage after the other."""
        device = next(self.network.parameters()).device
        made = torch.empty(0, device=device)
        for number, stage in self.stages.items():
            if number:
                made = self._receive(number - 1, device)
            made = stage(made, inputs=(args, kwargs))
            if not stage.is_last:
                self._send(made, number + 1)
        return self._from_last(made, device)

    def _send(self, tensor: Tensor, stage: int) -> None:
        for part in (_form(tensor), tensor.contiguous()):
            distributed.send(part, self._global_rank(stage), group=self.group)

    def _receive(self, stage: int, device: torch.device) -> Tensor:
        form = torch.empty(DIMENSIONS + 2, dtype=torch.int64, device=device)
        distributed.recv(form, self._global_rank(stage), group=self.group)
        tensor = _empty(form)
        distributed.recv(tensor, self._global_rank(stage), group=self.group)
        return tensor

    def _from_last(self, tensor: Tensor, device: torch.device) -> Tensor:
        """The tensor of the rank with the last stage."""
        source, has_last = self._global_rank(self.count - 1), self.count - 1 in self.stages
        form = _form(tensor) if has_last else torch.empty(DIMENSIONS + 2, dtype=torch.int64, device=device)
        distributed.broadcast(form, source, group=self.group)
        tensor = tensor.contiguous() if has_last else _empty(form)
        distributed.broadcast(tensor, source, group=self.group)
        return tensor

    def _global_rank(self, stage: int) -> int:
        return distributed.get_global_rank(self.group, stage % self.ranks)


def _loss(output: Tensor, _: Any) -> Tensor:
    """The loss of a micro batch, from the output of the last stage."""
    return output.squeeze(0)


def _form(tensor: Tensor) -> Tensor:
    """Data type and shape of a tensor, as a tensor."""
    sizes = [*tensor.shape, *[0] * (DIMENSIONS - tensor.dim())]
    return torch.tensor([DTYPES.index(tensor.dtype), tensor.dim(), *sizes], device=tensor.device)


def _empty(form: Tensor) -> Tensor:
    kind, dimensions, *sizes = form.tolist()
    return torch.empty(sizes[:dimensions], dtype=DTYPES[kind], device=form.device)
