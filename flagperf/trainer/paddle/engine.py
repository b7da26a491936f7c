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

from flagperf.contract.components import component
from flagperf.trainer.data.datasets import Loaded, Opened
from flagperf.trainer.loop.clock import COMPUTE, Clock
from flagperf.trainer.loop.standard import StandardEngine
from flagperf.trainer.paddle.data import load
from flagperf.trainer.paddle.device import clock_for, device_name, open_device, peak_memory
from flagperf.trainer.paddle.identity import fingerprint, optimizer_of
from flagperf.trainer.paddle.pickled import check_pickle
from flagperf.trainer.paddle.ranks import World

AUTOCAST = {"amp_fp16": "float16", "amp_bf16": "bfloat16"}


class PaddleEngine(StandardEngine):
    """The training of this rank by Paddle."""

    title = "PaddlePaddle"
    schedules = ("paddle.optimizer.lr", "cases.schedules")
    versions: Mapping[str, str] = {"paddlepaddle": paddle.__version__}  # of the class

    def __init__(self, config: Mapping[str, Any]) -> None:
        leave_signals()
        super().__init__(config)

    # ---------------------------------------------------------------- the start

    def ranks(self) -> World:
        return World.of()

    def open_device(self) -> None:
        self.device = open_device(self.config["vendor"], self.settings, self.world)
        self.device_name = device_name(self.device)

    def make_clock(self) -> Clock:
        return clock_for(self.device)

    def seed(self, number: int) -> None:
        random.seed(number)
        np.random.seed(number % 2**32)
        paddle.seed(number)

    def load(self, opened: Opened) -> Loaded:
        return load(opened, self.settings.num_workers)

    def make_schedule(self, config: Mapping[str, Any]) -> Any:
        """Paddle's own schedules, which a case may name, take nothing of ours but the rate."""
        return component(config, "lr_scheduler", self.settings.lr)

    def make_optimizer(self, rate: Any) -> Any:
        return component(self.config, "optimizer", learning_rate=rate, parameters=self.task.parameters(self.network))

    def prepare(self) -> None:
        self.scaler = paddle.amp.GradScaler(enable=self.settings.precision == "amp_fp16")
        self.model = self.network  # what a training step calls
        if self.world.size > 1:
            self.model = paddle.DataParallel(self.network, **self.settings.ddp)
        self.parameters = self.network.parameters()

    # ---------------------------------------------------------------- network and state

    def weights(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self.network.state_dict()
        return state

    def fill(self, given: Mapping[str, NDArray[Any]]) -> None:
        self.network.set_state_dict(dict(given))

    def trained_arrays(self) -> Iterable[NDArray[Any]]:
        return (parameter.numpy() for parameter in self.parameters)

    def peak_memory(self) -> tuple[float, str]:
        return peak_memory(self.device)

    def state(self) -> Mapping[str, Any]:
        return {name: part.state_dict() for name, part in self._stateful().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, part in self._stateful().items():
            fill = getattr(part, "set_state_dict", None) or part.load_state_dict
            fill(state[name])

    def _stateful(self) -> dict[str, Any]:
        """What has a state; the optimizer's has that of its schedule."""
        return {"network": self.network, "optimizer": self.optimizer, "scaler": self.scaler}

    def random_state(self) -> Mapping[str, Any]:
        return {"python": random.getstate(), "numpy": np.random.get_state(), "paddle": paddle.get_rng_state()}

    def set_random_state(self, state: Mapping[str, Any]) -> None:
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])
        paddle.set_rng_state(state["paddle"])

    def write_state(self, file: BinaryIO, state: Mapping[str, Any]) -> None:
        paddle.save(dict(state), file)

    def read_state(self, path: Path) -> Mapping[str, Any]:
        check_pickle(path)
        state: Mapping[str, Any] = paddle.load(str(path))
        return state

    def network_identity(self) -> Mapping[str, Any]:
        return fingerprint(self.network)

    def optimizer_identity(self) -> Mapping[str, Any]:
        return optimizer_of(self.optimizer, self.network)

    def rate(self, schedule: Any, interval: int) -> float:
        asked = copy.copy(schedule)
        asked.last_epoch = interval
        return float(asked.get_lr())

    # ---------------------------------------------------------------- steps and evaluations

    def step(self, number: int) -> None:  # noqa: ARG002
        """The last of the micro steps averages the gradients over the ranks."""
        self.losses = []
        micro_steps, clip = self.settings.gradient_accumulation_steps, self.settings.clip_grad
        for left in reversed(range(micro_steps)):
            batch = self.take()
            with self.model.no_sync() if left and self.world.size > 1 else nullcontext():
                with self.autocast():
                    loss = self.task.loss(self.model, batch)
                self.scaler.scale(loss if micro_steps == 1 else loss / micro_steps).backward()
            self.losses.append(loss.detach())
            if left:
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

    def learning_rate(self, step: int) -> float:  # noqa: ARG002
        return float(self._learning_rate)

    def loss_scale(self) -> Any:
        return self.scaler.state_dict()["scale"] if self.scaler.is_enable() else None

    def mean(self, losses: Sequence[paddle.Tensor]) -> float:
        return float(paddle.stack(losses).mean())

    def autocast(self) -> Any:
        """The precision of the forward pass."""
        kind = AUTOCAST.get(self.settings.precision)
        return nullcontext() if kind is None else paddle.amp.auto_cast(dtype=kind, level="O1")

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        self.network.eval()
        with paddle.no_grad(), self.autocast():
            yield
        self.network.train()


def leave_signals() -> None:
    """Let signals do what they do in any Python: Paddle's own handlers hide where a rank stands that is aborted."""
    paddle.disable_signal_handler()
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.disable()  # it believes that its handlers are still there
        faulthandler.enable()
