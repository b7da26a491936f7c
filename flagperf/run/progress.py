"""What people see while a round runs: who is in which phase, then rank 0's step, loss, throughput, metric."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Failure
from flagperf.contract.perflog import Event
from flagperf.contract.sample_data import is_sample, is_sample_data
from flagperf.run.console import Terminal
from flagperf.run.pace import TimeLeft, evaluation_text, goals_text, step_text
from flagperf.run.times import MILESTONES, PhaseTimes

TRAIN_INTERVAL = 5.0  # seconds between two lines of training progress, in the run's log and where there is no terminal
SLOW = 1.0  # seconds of a phase from which on a node is named as slow
PATIENCE = 10.0  # seconds of silence before the first step, after which a line says who is where, without a terminal
FEW = 8  # nodes that are named one by one
BEFORE_STEPS = tuple(MILESTONES.values())[:-1]  # the phases of the start, but for the first step
SLOWEST = 3  # how many are named of more nodes than that

REACHED = "that is the target, but sample data shows nothing: the training ends (stop_on_sample_data=false: it goes on)"

Objections = Callable[[Mapping[str, Any]], Sequence[str]]

log = logging.getLogger(__name__)


def _ends_on_sample_data(config: Mapping[str, Any]) -> bool:
    """Whether the value of the target ends a training that claims no target."""
    ends = config.get("size") == "full" and config.get("stop_on_sample_data")
    return bool(ends) and (is_sample(config) or is_sample_data(config["data_dir"]))


class Progress:
    """Shows one round. On a terminal one line is renewed; elsewhere plain lines come at most every few seconds.

    What is shown is also logged.

    Args:
        objections: what BUILT of rank 0 shows to be wrong, told before the first step and not only after the last one.
    """

    def __init__(self, job: JobConfig, console: Console | None = None, objections: Objections = lambda _: ()) -> None:
        self.console = console or Terminal()
        self.unit, self._objections = job.throughput_unit, objections
        self._goals = job.target.values if job.target else {}
        self._ends_at = job.target if _ends_on_sample_data(job.config) else None
        self._metric = ""  # the last evaluation of the target's metrics
        self._left = TimeLeft(job)
        self._began = time.monotonic()
        self._said = float("-inf")  # when the last line of training was written
        self._unsaid: Mapping[str, Any] | None = None  # the last step, unless a line of it was written
        self._at: dict[str, tuple[str, float]] = {}  # host → the phase that it is in, and since when
        self._took: dict[str, dict[str, float]] = {}  # phase → host → seconds, of those that have ended it
        self._printed = self._began  # when the last line was
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
        self._at, self._took = dict.fromkeys(hosts, (name, time.monotonic())), {}
        self._line(f"{name:8}{', '.join(hosts) if len(hosts) <= FEW else f'{len(hosts)} hosts'}")
        self._show_phases()

    def ended(self, name: str, host: str, seconds: float) -> None:
        """A host has ended the phase. Where several hosts are in it, those that were slow are named."""
        del self._at[host]
        took = self._took.setdefault(name, {})
        took[host] = seconds
        among = len(self._at) + len(took)
        if 1 < among <= FEW and seconds >= SLOW:
            self.working(f"{host}: {seconds:.1f} s")
        elif among > FEW and not self._at and max(took.values()) >= SLOW:
            self.working(seconds_text(took))
        self._show_phases()

    def starting(self, times: Mapping[str, PhaseTimes]) -> None:
        """How far the ranks of each host are on the way to their first step: launch, imports, init, first_step.

        A line says how long a phase took when all hosts have ended it, and who is where when that takes long.
        """
        now = time.monotonic()
        for phase in BEFORE_STEPS:
            if phase not in self._took and all(phase in of_host.seconds for of_host in times.values()):
                self._took[phase] = {host: of_host.seconds[phase] for host, of_host in times.items()}
                self._line(f"{phase:8}{seconds_text(self._took[phase])}")
        for host, of_host in times.items():
            if self._at.get(host, ("",))[0] != of_host.starting:
                self._at[host] = of_host.starting, now
        self._show_phases()
        if self._status is None and now - self._printed > PATIENCE:
            self._line(f"{phases_text(self._at, now)} so far")

    def working(self, text: str) -> None:
        """A long phase goes on."""
        self._line(f"{'':8}{text}")

    def event(self, event: Event) -> None:
        """Rank 0 logged something."""
        now = time.monotonic()
        self._left.saw(event, now)
        if event.event == "EVALUATE":
            self._metric = goals_text(event.value, self._goals)
            self._line(f"{'evaluate':8} {evaluation_text(event.value, self._goals)}")
            if self._ends_at is not None and self._ends_at.reached(event.value):
                self._line(f"{'':8} {REACHED}")
        elif event.event == "STEP_END":
            self._at = {}
            self._step(event.value, now)
        elif event.event == "BUILT":
            for text in self._objections(event.value):
                self._line(f"{'warning':8}this round will be INVALID: {text}")
        elif event.event == "TRAIN_END":
            self._last_step()

    def failure(self, failure: Failure) -> None:
        """The round failed. This is shown before anything is stopped."""
        self._last_step()
        log.error("%s", failure)
        self._print(f"failed  {failure}", style="red")

    def _step(self, value: Mapping[str, Any], now: float) -> None:
        text = self._text(value, self._left.seconds(now))
        self._renew(lambda: text)
        self._unsaid = value
        if now - self._said < TRAIN_INTERVAL:
            return
        self._said = now
        log.info("%s", text)
        if self._status is None:
            self._print(text)
            self._unsaid = None

    def _text(self, value: Mapping[str, Any], left: float | None) -> str:
        metric, last = self._metric, self._left.last_step
        return f"{'train':8}{step_text(value, self.unit, left, last=last, metric=metric)}"

    def _last_step(self) -> None:
        """Training is over: the line of its last step stays on the screen."""
        self._calm()
        value, self._unsaid = self._unsaid, None
        if value is not None:
            self._line(self._text(value, None))

    def _show_phases(self) -> None:
        """Show who is in which phase, and since when."""
        if at := dict(self._at):
            self._renew(lambda: phases_text(at, time.monotonic()))
        else:
            self._calm()

    def _renew(self, text: Callable[[], str]) -> None:
        """Show a line that is written again and again, with the seconds that have passed."""
        if self._status is not None:
            self._status.update(_Renewed(lambda: self._stamp() + text()))
            self._status.start()

    def _calm(self) -> None:
        if self._status is not None:
            self._status.stop()

    def _line(self, text: str) -> None:
        log.info("%s", text)
        self._print(text)

    def _print(self, text: str, style: str | None = None) -> None:
        self._printed = time.monotonic()
        self.console.print(self._stamp() + text, style=style, highlight=False, markup=False, soft_wrap=True)

    def _stamp(self) -> str:
        return f"{time.monotonic() - self._began:7.1f} s  "


class _Renewed:
    """A line whose text is made whenever it is shown."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __rich__(self) -> Text:
        return Text(self._text(), no_wrap=True, overflow="ellipsis")


def phases_text(at: Mapping[str, tuple[str, float]], now: float) -> str:
    """ "init    n1 3 s, n2 4 s; imports n3 4 s", or how many hosts are in a phase, and for how long at most."""
    hosts: dict[str, dict[str, float]] = {}
    for host, (phase, since) in at.items():
        hosts.setdefault(phase, {})[host] = now - since
    few = len(at) <= FEW
    parts = {
        phase: ", ".join(f"{host} {seconds:.0f} s" for host, seconds in found.items())
        if few
        else f"{len(found)} hosts {max(found.values()):.0f} s"
        for phase, found in hosts.items()
    }
    return "; ".join(f"{phase:7} {part}" for phase, part in parts.items())


def seconds_text(took: Mapping[str, float]) -> str:
    """ "n1 3.0 s, n2 4.1 s"; of many hosts the slowest."""
    if len(took) <= FEW:
        return ", ".join(f"{host} {seconds:.1f} s" for host, seconds in took.items())
    last = sorted(took.items(), key=lambda item: -item[1])[:SLOWEST]
    return "slowest: " + ", ".join(f"{host} {seconds:.1f} s" for host, seconds in last)
