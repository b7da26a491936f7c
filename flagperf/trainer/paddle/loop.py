"""What Paddle does in a training: steps in dygraph, averaged by paddle.DataParallel; evaluations, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import paddle

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.clock import COMPUTE
from flagperf.trainer.loop.records import Sums
from flagperf.trainer.loop.training import Training as AnyTraining
from flagperf.trainer.paddle.build import Parts
from flagperf.trainer.paddle.checkpoint import restore, set_random_state, snapshot
from flagperf.trainer.paddle.device import clock_for

AUTOCAST = {"amp_fp16": "float16", "amp_bf16": "bfloat16"}


class Training(AnyTraining):
    """One training on this rank; `run` runs it and says what it measured."""

    def __init__(self, parts: Parts, perflog: PerfLog) -> None:
        super().__init__(parts, perflog, clock_for(parts.device))
        self.parts, self.world = parts, parts.world
        self.network, self.optimizer, self.scaler = parts.network, parts.optimizer, parts.scaler
        self.model = self.network  # what a training step calls
        if self.world.size > 1:
            self.model = paddle.DataParallel(self.network, **self.settings.ddp)
        self.parameters = self.network.parameters()
        if parts.saved is not None:
            restore(parts.stateful, parts.saved)

    def started(self) -> None:
        if self.parts.saved is not None:
            set_random_state(self.parts.saved.random)

    def make_step(self) -> None:
        """The last of the micro steps averages the gradients over the ranks."""
        self.losses = []
        micro_steps, clip = self.settings.gradient_accumulation_steps, self.settings.clip_grad
        for left in reversed(range(micro_steps)):
            batch = self.take()
            with self.model.no_sync() if left and self.world.size > 1 else nullcontext():
                with self.autocast():
                    loss = self.parts.task.loss(self.model, batch)
                self.scaler.scale(loss if micro_steps == 1 else loss / micro_steps).backward()
            self.losses.append(loss.detach())
            if left:
                self.clock.lap(COMPUTE)
        self.rate = self.optimizer.get_lr()
        self.grad_norm = None
        if clip is not None:
            self.scaler.unscale_(self.optimizer)
            self.grad_norm = paddle.nn.utils.clip_grad_norm_(self.parameters, clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.clear_grad()
        if self.parts.schedule is not None:
            self.parts.schedule.step()

    def learning_rate(self) -> float:
        return float(self.rate)

    def loss_scale(self) -> Any:
        return self.scaler.state_dict()["scale"] if self.scaler.is_enable() else None

    def autocast(self) -> Any:
        """The precision of the forward pass."""
        kind = AUTOCAST.get(self.settings.precision)
        return nullcontext() if kind is None else paddle.amp.auto_cast(dtype=kind, level="O1")

    def evaluate(self) -> dict[str, float]:
        self.network.eval()
        with paddle.no_grad(), self.autocast():
            metrics: dict[str, float] = self.parts.task.evaluate(
                self.network, self.watched(self.parts.data.evaluation()), self.world
            )
        self.network.train()
        return metrics

    def watched(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, with signs of life between them."""
        for batch in batches:
            self.heartbeat("evaluate")
            yield batch

    def snapshot(self) -> None:
        snapshot(self.parts.config, self.world, self.parts.stateful, self.position)

    def send(self, units: int, losses: list[paddle.Tensor], extra: list[paddle.Tensor]) -> Sums:
        numbers = [float(units), float(paddle.stack(losses).mean()), *map(float, extra)]
        return self.world.sum(paddle.to_tensor(numbers, dtype="float64")).tolist  # type: ignore[no-any-return]
