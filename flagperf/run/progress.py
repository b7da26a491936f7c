"""What people see while a round runs: phases and their slow hosts, then rank 0's step, loss, throughput, time left."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from flagperf.config.values import RunConfig
from flagperf.perflog import Event
from flagperf.run.console import Terminal
from flagperf.run.values import Failure

TRAIN_INTERVAL = 5.0  # seconds between two lines of training progress, in the run's log and where there is no terminal
SLOW = 1.0  # seconds of a phase from which on a node is named as slow
FEW = 8  # nodes that are named one by one
SLOWEST = 3  # how many are named of more nodes than that

log = logging.getLogger(__name__)


class Progress:
    """Shows one round. On a terminal one line is renewed; elsewhere plain lines come at most every few seconds.

    What is shown is also logged.
    """

    def __init__(self, run: RunConfig, console: Console | None = None) -> None:
        self.console = console or Terminal()
        self.unit = run.throughput_unit
        self._left = TimeLeft(run)
        self._began = time.monotonic()
        self._said = float("-inf")  # when the last line of training was written
        self._unsaid: Mapping[str, Any] | None = None  # the last step, unless a line of it was written
        self._working: list[str] = []  # hosts that are in the phase
        self._took: dict[str, float] = {}  # host → seconds, of those that have ended it
        self._status: Status | None = Status("", console=self.console) if self.console.is_terminal else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._last_step()
        self._calm()

    def phase(self, name: str, hosts: Sequence[str]) -> None:
        """A phase begins on these hosts."""
        self._working, self._took = list(hosts), {}
        self._line(f"{name:8}{', '.join(hosts) if len(hosts) <= FEW else f'{len(hosts)} hosts'}")
        self._wait_for(name)

    def ended(self, name: str, host: str, seconds: float) -> None:
        """A host has ended the phase. Where several hosts are in it, those that were slow are named."""
        self._working.remove(host)
        self._took[host] = seconds
        among = len(self._working) + len(self._took)
        if 1 < among <= FEW and seconds >= SLOW:
            self.working(f"{host}: {seconds:.1f} s")
        elif among > FEW and not self._working and max(self._took.values()) >= SLOW:
            last = sorted(self._took.items(), key=lambda item: -item[1])[:SLOWEST]
            self.working("slowest: " + ", ".join(f"{host} {seconds:.1f} s" for host, seconds in last))
        self._wait_for(name)

    def working(self, text: str) -> None:
        """A long phase goes on."""
        self._line(f"{'':8}{text}")

    def event(self, event: Event) -> None:
        """Rank 0 logged something."""
        now = time.monotonic()
        self._left.saw(event, now)
        if event.event == "EVALUATE":
            self._line(f"{'evaluate':8} {evaluation_text(event.value)}")
        elif event.event == "STEP_END":
            self._step(event.value, now)
        elif event.event == "TRAIN_END":
            self._last_step()

    def failure(self, failure: Failure) -> None:
        """The round failed. This is shown before anything is stopped."""
        self._last_step()
        log.error("%s", failure)
        self._print(f"failed  {failure}", style="red")

    def _step(self, value: Mapping[str, Any], now: float) -> None:
        text = step_text(value, self.unit, self._left.seconds(now))
        self._renew(text)
        self._unsaid = value
        if now - self._said < TRAIN_INTERVAL:
            return
        self._said = now
        log.info("%s", f"{'train':8}{text}")
        if self._status is None:
            self._print(f"{'train':8}{text}")
            self._unsaid = None

    def _last_step(self) -> None:
        """Training is over: the line of its last step stays on the screen."""
        self._calm()
        value, self._unsaid = self._unsaid, None
        if value is not None:
            self._line(f"{'train':8}{step_text(value, self.unit, None)}")

    def _wait_for(self, phase: str) -> None:
        """Show who is still in the phase, where there are several."""
        if self._working and len(self._working) + len(self._took) > 1:
            named = ", ".join(self._working) if len(self._working) <= FEW else f"{len(self._working)} hosts"
            self._renew(f"{phase:8}waiting for {named}")
        else:
            self._calm()

    def _renew(self, text: str) -> None:
        if self._status is not None:
            self._status.update(escape(text))
            self._status.start()

    def _calm(self) -> None:
        if self._status is not None:
            self._status.stop()

    def _line(self, text: str) -> None:
        log.info("%s", text)
        self._print(text)

    def _print(self, text: str, style: str | None = None) -> None:
        stamp = f"{time.monotonic() - self._began:7.1f} s  "
        self.console.print(stamp + text, style=style, highlight=False, markup=False, soft_wrap=True)


class TimeLeft:
    """Estimates the seconds until the first of the configured limits ends training, from the pace so far."""

    def __init__(self, run: RunConfig) -> None:
        self._limits = run.limits
        self._batch = run.train_batch_size * run.gradient_accumulation_steps * run.world_size  # samples of a step
        self._began: float | None = None
        self._first: tuple[int, float] | None = None  # the first step seen and when; after a resume that is not step 1
        self._last: tuple[int, float] | None = None
        self._epoch_steps: float | None = None  # known after the first epoch

    def saw(self, event: Event, now: float) -> None:
        if event.event == "TRAIN_START":
            self._began = now
        elif event.event == "STEP_END":
            self._last = (int(event.value["step"]), now)
            self._first = self._first or self._last
        elif event.event == "EPOCH_END" and self._last is not None:
            self._epoch_steps = self._last[0] / event.value["epoch"]

    def seconds(self, now: float) -> float | None:
        """None while nothing is known: no limit, or no pace yet."""
        left = []
        if self._limits.max_time is not None and self._began is not None:
            left.append(self._began + self._limits.max_time - now)
        if self._first and self._last and self._last[0] > self._first[0]:
            pace = (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
            left += [(limit - self._last[0]) * pace for limit in self._step_limits()]
        return max(0.0, min(left)) if left else None

    def _step_limits(self) -> list[float]:
        """The steps at which the configured limits end training."""
        limits = self._limits
        steps_of_each = (
            (limits.max_steps, 1.0),
            (limits.max_samples_termination, 1 / self._batch),
            (limits.max_epochs, self._epoch_steps),
        )
        return [limit * steps for limit, steps in steps_of_each if limit is not None and steps is not None]


def step_text(value: Mapping[str, Any], unit: str, left: float | None) -> str:
    """ "step 120  epoch 2  loss 0.4312  1523.1 images/s  at most 1:02 left" """
    parts = [f"step {value['step']}"]
    if "epoch" in value:
        parts.append(f"epoch {value['epoch']}")
    if "loss" in value:
        parts.append(f"loss {value['loss']:.4g}")
    if "throughput" in value:
        parts.append(f"{value['throughput']:.1f} {unit}")
    if left is not None:
        parts.append(f"at most {duration(left)} left")
    return "  ".join(parts)


def evaluation_text(value: Mapping[str, Any]) -> str:
    """ "step 120  acc1 0.91" """
    figures = [f"{name} {figure:.4g}" for name, figure in value.items() if isinstance(figure, float) and name != "time"]
    return "  ".join([f"step {value.get('step', '?')}", *figures])


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any: "1:02", "3:00:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
