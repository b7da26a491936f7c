"""When to log, evaluate, save and stop: from numbers that are the same on every rank, so that all do the same."""

from __future__ import annotations

import time
from dataclasses import dataclass

from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.settings import Settings


@dataclass
class Progress:
    """Where the training is. Counts of the whole job since its first start, resumed or not."""

    step: int = 0  # optimizer steps done
    epoch: int = 1  # the current one, from 1
    step_in_epoch: int = 0  # steps done in it
    samples: int = 0

    def advance(self, samples: int) -> None:
        """One optimizer step of so many samples of the whole job is done."""
        self.step += 1
        self.step_in_epoch += 1
        self.samples += samples


class Rules:
    """The settings that say when."""

    def __init__(self, settings: Settings, world: World) -> None:
        self.settings = settings
        self.time_limit = None if settings.max_time is None else TimeLimit(settings.max_time, world)

    def start(self) -> None:
        """The training starts now: max_time begins to count."""
        if self.time_limit is not None:
            self.time_limit.start()

    def next_look(self, progress: Progress) -> int:
        """The next step after which any of the rules below may apply; until then nobody needs to ask them."""
        settings, step = self.settings, progress.step
        if settings.max_time or settings.max_samples_termination or settings.eval_interval_samples:
            return step + 1
        every = (settings.log_freq, settings.eval_interval_steps, settings.checkpoint_freq)
        looks = [step - step % interval + interval for interval in every if interval]
        return max(step + 1, min([*looks, settings.max_steps or looks[0]]))

    def logs(self, step: int) -> bool:
        """Step 1 and every log_freq steps; the last step is logged in any case."""
        return step % self.settings.log_freq == 0 or step == 1

    def evaluates(self, progress: Progress, samples: int) -> bool:
        """After a step of so many samples: whether eval_interval_steps or eval_interval_samples is due."""
        if progress.samples < self.settings.eval_start_samples:
            return False
        if self.settings.eval_interval_steps is not None:
            return progress.step % self.settings.eval_interval_steps == 0
        interval = self.settings.eval_interval_samples
        return interval is not None and progress.samples // interval > (progress.samples - samples) // interval

    def evaluates_epoch(self, progress: Progress) -> bool:
        """After an epoch: whether eval_interval_epochs is due; steps and samples, where set, count instead."""
        settings = self.settings
        return (
            settings.eval_interval_steps is None
            and settings.eval_interval_samples is None
            and settings.eval_interval_epochs is not None
            and progress.epoch % settings.eval_interval_epochs == 0
            and progress.samples >= settings.eval_start_samples
        )

    def saves(self, step: int) -> bool:
        """Every checkpoint_freq steps."""
        return self.settings.checkpoint_freq is not None and step % self.settings.checkpoint_freq == 0

    def stop_reason(self, progress: Progress) -> str | None:
        """After a step: the limit that is reached, if any."""
        return self.limit(progress) or ("max_time" if self.time_limit and self.time_limit.passed() else None)

    def limit(self, progress: Progress) -> str | None:
        """The limit of steps, samples or epochs that is reached, if any."""
        settings = self.settings
        if settings.max_steps is not None and progress.step >= settings.max_steps:
            return "max_steps"
        if settings.max_samples_termination is not None and progress.samples >= settings.max_samples_termination:
            return "max_samples_termination"
        return "max_epochs" if self.ends_with_epoch(progress.epoch - 1) else None

    def ends_with_epoch(self, epoch: int) -> bool:
        """Whether this epoch is the last one."""
        return self.settings.max_epochs is not None and epoch >= self.settings.max_epochs


class TimeLimit:
    """Whether max_time has passed on any rank. Asking the others costs a message, so it is done every few steps only,
    more often towards the end: at most every 10 steps, and at least twice in the time that is left."""

    def __init__(self, seconds: float, world: World) -> None:
        self.seconds, self.world = seconds, world
        self._steps = self._next = 0
        self._started = time.perf_counter()

    def start(self) -> None:
        """The time begins to count."""
        self._started = time.perf_counter()

    def passed(self) -> bool:
        """Call it once after each step on every rank."""
        self._steps += 1
        if self._steps < self._next:
            return False
        elapsed = self.world.largest(time.perf_counter() - self._started)
        steps_left = (self.seconds - elapsed) / max(elapsed / self._steps, 1e-9)
        self._next = self._steps + max(1, min(10, int(steps_left / 2)))
        return elapsed >= self.seconds
