"""Paddle's calls: steps in dygraph, averaged by paddle.DataParallel; evaluations, checkpoints."""

from __future__ import annotations

import copy
import faulthandler
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import paddle
from numpy.typing import NDArray
from typing_extensions import override

from flagperf.contract.components import component
from flagperf.trainer.data.datasets import Loaded, Opened
from flagperf.trainer.loop.clock import COMPUTE
from flagperf.trainer.loop.standard import StandardEngine
from flagperf.trainer.paddle.data import load
from flagperf.trainer.paddle.device import PaddleDevice
from flagperf.trainer.paddle.identity import fingerprint, optimizer_of
from flagperf.trainer.paddle.pickled import check_pickle
from flagperf.trainer.paddle.ranks import World

AUTOCAST = {"amp_fp16": "float16", "amp_bf16": "bfloat16"}


class PaddleEngine(StandardEngine):
    """The training of this rank by Paddle."""

    title = "PaddlePaddle"
    world_class = World
    device_class = PaddleDevice
    schedules = ("paddle.optimizer.lr", "cases.schedules")
    versions: Mapping[str, str] = {"paddlepaddle": paddle.__version__}  # of the class

    def __init__(self, config: Mapping[str, Any]) -> None:
        _restore_signal_handlers()
        super().__init__(config)

    # ---------------------------------------------------------------- the start

    @override
    def seed(self, number: int) -> None:
        random.seed(number)
        np.random.seed(number % 2**32)
        paddle.seed(number)

    @override
    def load(self, opened: Opened) -> Loaded:
        return load(opened, self.settings.num_workers)

    def make_schedule(self, config: Mapping[str, Any]) -> Any:
        """A case may name Paddle's own schedules, which take no argument but the rate."""
        return component(config, "lr_scheduler", self.settings.lr)

    @override
    def make_optimizer(self, rate: Any) -> Any:
        return component(self.config, "optimizer", learning_rate=rate, parameters=self.task.parameters(self.network))

    @override
    def prepare(self) -> None:
        self.scaler = paddle.amp.GradScaler(enable=self.settings.precision == "amp_fp16")
        self.model = self.network  # the training step calls it
        if self.world.size > 1:
            self.model = paddle.DataParallel(self.network, **self.settings.ddp)
        self.parameters = self.network.parameters()

    # ---------------------------------------------------------------- network and state

    @override
    def weights(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self.network.state_dict()
        return state

    @override
    def fill(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self.network.set_state_dict(dict(weights))

    @override
    def trained_arrays(self) -> Iterable[NDArray[Any]]:
        return (parameter.numpy() for parameter in self.parameters)

    @override
    def state(self) -> Mapping[str, Any]:
        return {name: part.state_dict() for name, part in self._stateful().items()}

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        for name, part in self._stateful().items():
            fill = getattr(part, "set_state_dict", None) or part.load_state_dict
            fill(state[name])

    def _stateful(self) -> dict[str, Any]:
        """The parts with a state. The optimizer's state contains that of its schedule."""
        return {"network": self.network, "optimizer": self.optimizer, "scaler": self.scaler}

    @override
    def random_state(self) -> Mapping[str, Any]:
        return {"python": random.getstate(), "numpy": np.random.get_state(), "paddle": paddle.get_rng_state()}

    @override
    def set_random_state(self, state: Mapping[str, Any]) -> None:
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])
        paddle.set_rng_state(state["paddle"])

    @override
    def write_state(self, file: BinaryIO, state: Mapping[str, Any]) -> None:
        paddle.save(dict(state), file)

    @override
    def read_state(self, path: Path) -> Mapping[str, Any]:
        check_pickle(path)
        state: Mapping[str, Any] = paddle.load(str(path))
        return state

    @override
    def network_identity(self) -> Mapping[str, Any]:
        return fingerprint(self.network)

    @override
    def optimizer_identity(self) -> Mapping[str, Any]:
        return optimizer_of(self.optimizer, self.network)

    @override
    def rate(self, schedule: Any, interval: int) -> float:
        stepped = copy.copy(schedule)
        stepped.last_epoch = interval
        return float(stepped.get_lr())

    # ---------------------------------------------------------------- steps and evaluations

    def step(self, number: int) -> None:  # noqa: ARG002
        """Make a step. Its last micro step averages the gradients over the ranks."""
        self.losses = []
        micro_steps, clip = self.settings.gradient_accumulation_steps, self.settings.clip_grad
        for remaining, (batch, share) in zip(reversed(range(micro_steps)), self.batches_of_step()):
            with self.model.no_sync() if remaining and self.world.size > 1 else nullcontext():
                with self.autocast():
                    loss = self.loss(batch, share)
                self.scaler.scale(loss if micro_steps == 1 else loss / micro_steps).backward()
            self.losses.append(loss.detach())
            if remaining:
                self.clock.lap(COMPUTE)
        self._learning_rate = self.optimizer.get_lr()
        if clip is not None:
            self.scaler.unscale_(self.optimizer)
            self.grad_norm = paddle.nn.utils.clip_grad_norm_(self.parameters, clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.clear_grad()
        if self.schedule is not None:
            self.schedule.step()

    @override
    def learning_rate(self, step: int) -> float:
        return float(self._learning_rate)

    @override
    def loss_scale(self) -> Any:
        return self.scaler.state_dict()["scale"] if self.scaler.is_enable() else None

    @override
    def mean(self, losses: Sequence[paddle.Tensor]) -> float:
        return float(paddle.stack(losses).mean())

    def loss(self, batch: Any, share: NDArray[Any] | None) -> paddle.Tensor:
        """The loss of a micro batch, whose mean over micro steps and ranks is the loss of the step."""
        if share is None:
            return self.task.loss(self.model, batch)
        return (self.task.terms(self.model, batch) * paddle.to_tensor(share, "float32")).sum()

    def autocast(self) -> Any:
        """The precision of the forward pass."""
        kind = AUTOCAST.get(self.settings.precision)
        return nullcontext() if kind is None else paddle.amp.auto_cast(dtype=kind, level="O1")

    @override
    @contextmanager
    def evaluating(self) -> Iterator[None]:
        self.network.eval()
        with paddle.no_grad(), self.autocast():
            yield
        self.network.train()


def _restore_signal_handlers() -> None:
    """Restore Python's signal handlers: Paddle's own ones hide the stack of an aborted rank."""
    paddle.disable_signal_handler()
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.disable()  # else it takes its handlers for installed
        faulthandler.enable()
