"""Progress of a training: completed and remaining steps, the last metric and its target, the remaining time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flagperf.config.schema.values import JobConfig
from flagperf.contract.perflog import Event


class TimeLeft:
    """Estimates the seconds until the first of the configured limits ends training, from the pace so far."""

    def __init__(self, job: JobConfig) -> None:
        self._limits = job.limits
        self._batch = job.train_batch_size * job.gradient_accumulation_steps * job.mesh.data_ranks  # samples of a step
        self._began: float | None = None
        self._first: tuple[int, float] | None = None  # the first observed step and its time; not step 1 after a resume
        self._last: tuple[int, float] | None = None
        self._epoch_steps: float | None = None  # known after the first epoch

    def observe(self, event: Event, now: float) -> None:
        """Take note of an event of rank 0. `now`: seconds of any monotonic clock."""
        if event.event == "TRAIN_START":
            self._began = now
        elif event.event == "STEP_END":
            self._last = (int(event.value["step"]), now)
            self._first = self._first or self._last
        elif event.event == "EPOCH_END" and event.value.get("step") is not None:
            self._epoch_steps = event.value["step"] / event.value["epoch"]

    def seconds(self, now: float) -> float | None:
        """Seconds until the end of training; None without a limit or a pace."""
        estimates = []
        if self._limits.max_time is not None and self._began is not None:
            estimates.append(self._began + self._limits.max_time - now)
        if self._first and self._last and self._last[0] > self._first[0]:
            pace = (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
            estimates += [(limit - self._last[0]) * pace for limit in self._step_limits()]
        return max(0.0, min(estimates)) if estimates else None

    @property
    def last_step(self) -> int | None:
        """The last step by the known limits; None: unknown."""
        return min((math.ceil(limit) for limit in self._step_limits()), default=None)

    def _step_limits(self) -> list[float]:
        """The steps at which the configured limits end training."""
        limits = self._limits
        steps_of_each = (
            (limits.max_steps, 1.0),
            (limits.max_samples_termination, 1 / self._batch),
            (limits.max_epochs, self._epoch_steps),
        )
        return [limit * steps for limit, steps in steps_of_each if limit is not None and steps is not None]


def step_text(
    value: Mapping[str, Any], unit: str, seconds_left: float | None, *, last: int | None = None, metric: str = ""
) -> str:
    """ "step 120/400  epoch 2  loss 0.4312  1523.1 images/s  acc1 0.51 (target 0.6)  at most 1:02 left" """
    parts = [f"step {value['step']}" + (f"/{last}" if last is not None else "")]
    if "epoch" in value:
        parts.append(f"epoch {value['epoch']}")
    if value.get("loss") is not None:
        parts.append(f"loss {value['loss']:.4g}")
    if value.get("throughput") is not None:
        parts.append(f"{value['throughput']:.1f} {unit}")
    if metric:
        parts.append(metric)
    if seconds_left:  # 0 after the last step
        parts.append(f"at most {duration(seconds_left)} left")
    return "  ".join(parts)


def evaluation_text(value: Mapping[str, Any], goals: Mapping[str, float]) -> str:
    """ "step 120  acc1 0.91 (target 0.6)" """
    names = [name for name, figure in value.items() if isinstance(figure, float) and name != "time"]
    return "  ".join([f"step {value.get('step', '?')}", *(_metric(name, value[name], goals) for name in names)])


def goals_text(value: Mapping[str, Any], goals: Mapping[str, float]) -> str:
    """The metrics of an evaluation that have a goal: "acc1 0.91 (target 0.6)"."""
    return "  ".join(_metric(name, value[name], goals) for name in goals if isinstance(value.get(name), float))


def _metric(name: str, figure: float, goals: Mapping[str, float]) -> str:
    return f"{name} {figure:.4g}" + (f" (target {goals[name]:g})" if name in goals else "")


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any: "1:02", "3:00:05"."""
    minutes, seconds_part = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_part:02}" if hours else f"{minutes}:{seconds_part:02}"
