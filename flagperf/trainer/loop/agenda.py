"""When to log, evaluate, save and stop. The inputs are the same on every rank, and so are the decisions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable

from flagperf.contract.settings import Settings

Largest = Callable[[float], float]  # a number of this rank → the largest of all ranks, the same on each


@dataclass
class Position:
    """Where the training is. Counts of the whole job since its first start, resumed or not."""

    step: int = 0  # optimizer steps done
    epoch: int = 1  # the current one, from 1
    step_in_epoch: int = 0  # steps done in it
    samples: int = 0

    def advance(self, samples: int) -> None:
        """Count one optimizer step. `samples`: of the whole job in this step."""
        self.step += 1
        self.step_in_epoch += 1
        self.samples += samples


class Agenda:
    """When to log, evaluate, save and stop, by the settings."""

    def __init__(self, settings: Settings, largest: Largest) -> None:
        self.settings = settings
        names = ("max_time", "max_samples_termination", "eval_interval_micro_steps", "eval_interval_samples")
        self._each_step = any(getattr(settings, name) for name in names)
        every = (settings.eval_interval_steps, settings.checkpoint_freq, settings.checksum_freq)
        self._every = [interval for interval in every if interval]
        self.time_limit = None if settings.max_time is None else TimeLimit(settings.max_time, largest)

    def start(self) -> None:
        """Begin to count max_time."""
        if self.time_limit is not None:
            self.time_limit.start()

    def next_event(self, position: Position) -> int | None:
        """The next step after which anything but a record may be due; None: none in this epoch."""
        step, last = position.step, self.settings.max_steps
        if self._each_step:
            return step + 1
        due = [step - step % interval + interval for interval in self._every]
        if last is not None:
            due.append(max(step + 1, last))
        return min(due, default=None)

    def next_record(self, step: int) -> int:
        """The next step that is logged."""
        return step - step % self.settings.log_freq + self.settings.log_freq

    def logs(self, step: int) -> bool:
        """Whether to log this step: step 1, and every log_freq steps. The loop logs the last step too."""
        return step % self.settings.log_freq == 0 or step == 1

    def evaluates(self, position: Position, samples: int) -> bool:
        """Whether to evaluate after a step of `samples`: by eval_interval_steps, _micro_steps or _samples."""
        settings, micro_steps = self.settings, self.settings.gradient_accumulation_steps
        if position.samples < settings.eval_start_samples:
            return False
        if settings.eval_interval_steps is not None:
            return position.step % settings.eval_interval_steps == 0
        if settings.eval_interval_micro_steps is not None:
            return _passes(position.step * micro_steps, micro_steps, settings.eval_interval_micro_steps)
        interval = settings.eval_interval_samples
        return interval is not None and _passes(position.samples, samples, interval)

    def evaluates_epoch(self, position: Position) -> bool:
        """Whether to evaluate after this epoch: by eval_interval_epochs, where none of the others is set."""
        settings = self.settings
        return (
            settings.eval_interval_steps is None
            and settings.eval_interval_micro_steps is None
            and settings.eval_interval_samples is None
            and settings.eval_interval_epochs is not None
            and position.epoch % settings.eval_interval_epochs == 0
            and position.samples >= settings.eval_start_samples
        )

    def evaluates_end(self, position: Position) -> bool:
        """Whether to evaluate where a limit has ended the training: after one interval of evaluations at least.

        A shorter training, such as max_steps=20 for its throughput, is evaluated only where it began with an
        evaluation. A training without intervals is never evaluated.
        """
        settings = self.settings
        done_of_interval = (
            (position.step, settings.eval_interval_steps),
            (position.step * settings.gradient_accumulation_steps, settings.eval_interval_micro_steps),
            (position.samples, settings.eval_interval_samples),
            (position.epoch - 1, settings.eval_interval_epochs),
        )
        done, interval = next((pair for pair in done_of_interval if pair[1] is not None), (0, None))
        if interval is None or position.samples < settings.eval_start_samples:
            return False
        return done >= interval or settings.initial_evaluation

    def saves(self, step: int) -> bool:
        """Whether to write a checkpoint after this step: every checkpoint_freq steps."""
        return self.settings.checkpoint_freq is not None and step % self.settings.checkpoint_freq == 0

    def checksums(self, step: int) -> bool:
        """Whether to log checksums of this step: every checksum_freq steps."""
        return self.settings.checksum_freq is not None and step % self.settings.checksum_freq == 0

    def stop_reason(self, position: Position) -> str | None:
        """The limit that is reached after this step, max_time included; None where there is none."""
        return self.limit(position) or ("max_time" if self.time_limit and self.time_limit.passed() else None)

    def limit(self, position: Position) -> str | None:
        """The limit of steps, samples or epochs that is reached; None where there is none."""
        settings = self.settings
        if settings.max_steps is not None and position.step >= settings.max_steps:
            return "max_steps"
        if settings.max_samples_termination is not None and position.samples >= settings.max_samples_termination:
            return "max_samples_termination"
        return "max_epochs" if self.ends_with_epoch(position.epoch - 1) else None

    def ends_here(self, position: Position, steps_in_epoch: int) -> bool:
        """Whether a limit of steps, samples or epochs ends the training with this step of an epoch."""
        ends_epoch = position.step_in_epoch == steps_in_epoch
        return self.limit(position) is not None or (ends_epoch and self.ends_with_epoch(position.epoch))

    def ends_with_epoch(self, epoch: int) -> bool:
        """Whether max_epochs ends the training with this epoch."""
        return self.settings.max_epochs is not None and epoch >= self.settings.max_epochs


def _passes(count: int, added: int, interval: int) -> bool:
    """Whether the last `added` of the count reach a multiple of the interval."""
    return count // interval > (count - added) // interval


class TimeLimit:
    """Whether max_time has passed on any rank.

    A check costs a message between the ranks. So there is one every 10 steps at most. Towards the end there are more:
    at least two in the remaining time.
    """

    def __init__(self, seconds: float, largest: Largest) -> None:
        self.seconds, self.largest = seconds, largest
        self._steps = self._next = 0
        self._started = time.perf_counter()

    def start(self) -> None:
        """Begin to count the time."""
        self._started = time.perf_counter()

    def passed(self) -> bool:
        """Whether the time is over. Call it once after each step, on every rank."""
        self._steps += 1
        if self._steps < self._next:
            return False
        elapsed = self.largest(time.perf_counter() - self._started)
        steps_left = (self.seconds - elapsed) / max(elapsed / self._steps, 1e-9)
        self._next = self._steps + max(1, min(10, int(steps_left / 2)))
        return elapsed >= self.seconds
