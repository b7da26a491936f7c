"""One optimizer step of a rank, as the engine makes it, under the tally."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from flagperf.contract.components import component
from flagperf.trainer.pytorch.adapter import trained_parameters
from flagperf.trainer.pytorch.parallel import Strategy
from flagperf.trainer.pytorch.parallel.stages import Loss
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.step_loss import Given, StepLoss
from flagperf.trainer.pytorch.synthetic import HELD
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.pytorch.trace.as_on_device import AsOnDevice, recompute_as_on_device
from flagperf.trainer.pytorch.trace.memory import Memory
from flagperf.trainer.pytorch.trace.propagation import shapes_unseen
from flagperf.trainer.pytorch.trace.stand_in import CPU
from flagperf.trainer.pytorch.trace.tally import Tally

if TYPE_CHECKING:
    from flagperf.trainer.pytorch.trace.pipeline import Form


class Step:
    """A step of a network that this rank holds.

    Args:
        mode: in which tensors have no values, or matrix products compute none.
        batch: as the task's data set gives it.
        names: of the network's modules.
        form: of the tensor that stages of a pipeline pass on; None: the network has one stage, or this rank has the
            first stage, and `run` sets the form.
    """

    def __init__(
        self,
        config: Any,
        strategy: Strategy,
        task: Task,
        network: nn.Module,
        mode: TorchDispatchMode,
        batch: Any,
        names: Mapping[nn.Module, str],
        form: Form | None = None,
    ) -> None:
        self.config, self.settings, self.strategy, self.task = config, strategy.settings, strategy, task
        self.network, self.mode, self.batch, self.names = network.train(), mode, batch, names
        self.form, self.pipeline = form, strategy.pipeline(network)
        self.on_device = config["vendor"]["device"] != "cpu"

    def run(self, tally: Tally) -> None:
        """Make the optimizer and its state, then one step that the tally counts."""
        memory = tally.memory
        with ExitStack() as stack:
            stack.enter_context(self.mode)
            stack.enter_context(memory.following_resizes())
            stack.enter_context(shapes_unseen(tally))
            stack.enter_context(tally)
            precision = Precision(self.settings.precision, CPU)
            memory.mark([*self.network.parameters(), *self.network.buffers()], "parameters")
            optimizer = self._optimizer()
            if self.settings.ema.decay is not None:
                average = [torch.empty_like(tensor) for tensor in self.network.state_dict().values()]
                memory.mark(average, "parameters")
            memory.mark(list(optimizer.state.values()), "optimizer")
            batches = [self._on_device() for _ in range(self.settings.gradient_accumulation_steps)]
            others = self._other_batches(batches[0])
            memory.mark(others, "activations")
            model = self.strategy.wrapped(self.network, CPU)
            if isinstance(model, nn.parallel.DistributedDataParallel):
                model.register_comm_hook(None, lambda _, bucket: _all_reduced(bucket))
            stack.enter_context(tally.following(self.names))
            if self.on_device:
                fused = {*self.settings.attention_kernels} != {"math"}
                recompute_as_on_device(self.network, fused=fused)
                stack.enter_context(AsOnDevice(fused=fused))
            if self.pipeline is not None and 0 in self.pipeline.stages:
                self.form = self._form(precision, batches[0])
            tally.counting = True
            self._step(tally, precision, optimizer, model, batches)

    def _on_device(self) -> Any:
        return self.task.to_device(self.batch, CPU, getattr(torch, self.settings.memory_format))

    def _other_batches(self, batch: Any) -> list[Any]:
        """What a synthetic training keeps on the device beside the batch of a step."""
        return [tree_map(_copied, batch) for _ in range(HELD - 1)] if self.settings.synthetic else []

    def _optimizer(self) -> Optimizer:
        """The case's optimizer, with the state that it has after a step."""
        optimizer: Optimizer = component(self.config, "optimizer", trained_parameters(self.task, self.network))
        if self.on_device:
            for group in optimizer.param_groups:
                if "foreach" in group and group["foreach"] is None and not group.get("fused"):
                    group["foreach"] = True  # as torch chooses on an accelerator
        for parameter in self.network.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        return optimizer

    def _form(self, precision: Precision, batch: Any) -> Form:
        from flagperf.trainer.pytorch.trace.pipeline import form_between

        return form_between(self.strategy, self.pipeline.stages[0], batch, precision.cast(self.task.loss))

    def _step(self, tally: Tally, precision: Precision, optimizer: Optimizer, model: nn.Module, batches: Any) -> None:
        memory, limit = tally.memory, self.settings.clip_grad
        memory.phase = "forward"
        step_loss = StepLoss(self.task, self.strategy.world, self.config["gradient_accumulation_steps"])
        given, loss_of = step_loss.given(batches), precision.cast(step_loss.of)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if self.pipeline is None:
            self._micro_steps(memory, precision, model, given, loss_of)
        else:
            from flagperf.trainer.pytorch.trace.pipeline import run_pipeline

            assert self.form is not None, "the first stage is traced before others"
            loss: Loss = lambda network, batch: loss_of(network, *batch)  # noqa: E731
            run_pipeline(self.strategy, self.pipeline, given, loss, memory, self.form)
        memory.phase, memory.module = "optimizer", ""
        clip = None if limit is None else partial(self.strategy.clip, parameters, limit)
        precision.step(optimizer, clip)
        optimizer.zero_grad()

    def _micro_steps(
        self,
        memory: Memory,
        precision: Precision,
        model: nn.Module,
        batches: Sequence[Given],
        loss_of: Callable[..., Tensor],
    ) -> None:
        micro_steps = len(batches)
        for number, given in enumerate(batches, 1):
            memory.mark(given, "activations")
            memory.phase = "forward"
            last = number == micro_steps
            with self.strategy.computing(), nullcontext() if last else self.strategy.accumulating():
                loss = loss_of(model, *given)
                memory.mark_living("temporary", "activations")
                memory.phase = "backward"
                precision.backward(loss, micro_steps)
            del loss
            memory.mark_living("temporary", "gradients")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _all_reduced(bucket: Any) -> Any:
    """What DDP does with a bucket of gradients, with a result that a process group that sends nothing lacks."""
    torch.distributed.all_reduce(bucket.buffer())
    done: Any = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
