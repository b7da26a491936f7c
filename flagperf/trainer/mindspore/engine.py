"""MindSpore's calls: steps in PyNative mode by value_and_grad; evaluations, checkpoints."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, amp, nn, ops
from numpy.typing import NDArray
from typing_extensions import override

from flagperf.contract.components import component
from flagperf.trainer.data.datasets import Loaded, Opened
from flagperf.trainer.loop.standard import StandardEngine
from flagperf.trainer.loop.supported import PYTORCH_ONLY
from flagperf.trainer.mindspore.data import load
from flagperf.trainer.mindspore.device import MindSporeDevice
from flagperf.trainer.mindspore.identity import fingerprint, number, optimizer_of
from flagperf.trainer.mindspore.ranks import World

CAST = {"amp_fp16": mindspore.float16, "amp_bf16": mindspore.bfloat16}
FIRST_SCALE, SCALE_FACTOR, SCALE_WINDOW = 2.0**16, 2, 2000  # of the loss in fp16, as PyTorch has them


class MindSporeEngine(StandardEngine):
    """The training of this rank by MindSpore."""

    title = "MindSpore"
    world_class = World
    device_class = MindSporeDevice
    fixed: Mapping[str, Any] = {**PYTORCH_ONLY, "ddp": {}}  # of the class
    versions: Mapping[str, str] = {"mindspore": mindspore.__version__}
    world: World

    # ---------------------------------------------------------------- the start

    @override
    def seed(self, number: int) -> None:
        random.seed(number)
        mindspore.set_seed(number % 2**32)
        mindspore.manual_seed(number)

    @override
    def load(self, opened: Opened) -> Loaded:
        return load(opened, self.settings.num_workers)

    @override
    def make_optimizer(self, rate: Any) -> nn.Optimizer:
        return component(self.config, "optimizer", self.task.parameters(self.network), learning_rate=rate)

    @override
    def prepare(self) -> None:
        precision = self.settings.precision
        if precision in CAST:
            self.network = amp.auto_mixed_precision(self.network, "auto", CAST[precision])
        fp16 = precision == "amp_fp16"
        self.scaler = amp.DynamicLossScaler(FIRST_SCALE, SCALE_FACTOR, SCALE_WINDOW) if fp16 else None
        self.gradients = mindspore.value_and_grad(self._forward, None, self.optimizer.parameters, has_aux=True)
        self.average = self.world.averaging(self.optimizer.parameters)
        self.network.set_train(True)

    # ---------------------------------------------------------------- network and state

    @override
    def weights(self) -> Mapping[str, Any]:
        parameters: Mapping[str, Any] = self.network.parameters_dict()
        return parameters

    @override
    def fill(self, weights: Mapping[str, NDArray[Any]]) -> None:
        for name, parameter in self.weights().items():
            self.assign(parameter, weights[name])

    @override
    def trained_arrays(self) -> Iterable[NDArray[Any]]:
        return (parameter.asnumpy() for parameter in self.network.trainable_params())

    @override
    def statistics(self) -> list[Parameter]:
        return list(self.network.untrainable_params())

    @override
    def assign(self, tensor: Parameter, value: NDArray[Any]) -> None:
        tensor.set_data(Tensor(value, tensor.dtype))

    @override
    def state(self) -> Mapping[str, Any]:
        return {"arrays": {name: parameter.asnumpy() for name, parameter in self._parameters().items()}}

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        for name, parameter in self._parameters().items():
            self.assign(parameter, state["arrays"][name])

    def _parameters(self) -> dict[str, Parameter]:
        """All parameters with a state, by name. The only state of the schedule is the optimizer's count of steps."""
        cells = (self.network, self.optimizer)
        parameters = {parameter.name: parameter for cell in cells for parameter in cell.get_parameters()}
        if self.scaler is not None:
            parameters.update({"scaler.scale": self.scaler.scale_value, "scaler.counter": self.scaler.counter})
        return parameters

    @override
    def random_state(self) -> NDArray[Any]:
        return mindspore.get_rng_state().asnumpy()  # type: ignore[no-any-return]

    @override
    def set_random_state(self, state: NDArray[Any]) -> None:
        mindspore.set_rng_state(Tensor(state))

    @override
    def network_identity(self) -> Mapping[str, Any]:
        return fingerprint(self.network)

    @override
    def optimizer_identity(self) -> Mapping[str, Any]:
        return optimizer_of(self.optimizer)

    @override
    def rate(self, schedule: Any, interval: int) -> float:
        return number(self._rate(schedule, interval))

    @staticmethod
    def _rate(schedule: Any, interval: int) -> Tensor:
        return schedule(Tensor([interval], mindspore.int32))

    # ---------------------------------------------------------------- steps and evaluations

    def step(self, number: int) -> None:  # noqa: ARG002
        """Add up the gradients of the micro steps, average them over the ranks, clip and apply them."""
        self.losses, sums = [], ()
        for batch, share in self.batches_of_step():
            given = (batch,) if share is None else (batch, Tensor(share, mindspore.float32))
            (_, loss), gradients = self.gradients(*given)
            sums = tuple(map(ops.add, sums, gradients)) if sums else gradients
            self.losses.append(loss)
        averaged = self.average(sums)
        if self.scaler is None:
            self.optimizer(self._clipped(averaged))
            return
        gradients, finite = self._clipped(self.scaler.unscale(averaged)), amp.all_finite(averaged)
        self.scaler.adjust(finite)
        if finite:
            self.optimizer(gradients)

    @override
    def learning_rate(self, step: int) -> float:
        return self.settings.lr if self.schedule is None else float(self._rate(self.schedule, step - 1))

    @override
    def loss_scale(self) -> Any:
        return None if self.scaler is None else self.scaler.scale_value

    def _forward(self, batch: Any, share: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The value to differentiate, a micro step's part of the scaled loss of the step; and the plain loss."""
        if share is None:
            loss = self.task.loss(self.network, batch)
        else:
            loss = (self.task.terms(self.network, batch) * share).sum()
        part = loss / self.settings.gradient_accumulation_steps
        return (part if self.scaler is None else self.scaler.scale(part)), loss

    def _clipped(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Gradients whose norm is above the limit, scaled down to it."""
        if self.settings.clip_grad is None:
            return gradients
        self.grad_norm = global_norm(gradients)
        factor = ops.clamp(self.settings.clip_grad / (self.grad_norm + 1e-6), max=1.0)
        return tuple(gradient * factor for gradient in gradients)

    @override
    def numbers(self, tensor: Any) -> NDArray[Any]:
        return np.array([float(number) for number in tensor]) if isinstance(tensor, tuple) else tensor.asnumpy()

    @override
    @contextmanager
    def evaluating(self) -> Iterator[None]:
        self.network.set_train(False)
        yield
        self.network.set_train(True)


def global_norm(tensors: tuple[Tensor, ...]) -> Tensor:
    """The Euclidean norm of all numbers of some tensors."""
    return ops.sqrt(sum(ops.square(tensor).sum() for tensor in tensors))
