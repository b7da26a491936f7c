"""Shows a running round: first the phase of each host, then rank 0's step, loss, throughput and metric."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Failure
from flagperf.contract.perflog import Event
from flagperf.contract.sample_data import is_sample_data, is_sample_folder
from flagperf.run.console import Terminal
from flagperf.run.pace import TimeLeft, evaluation_text, goals_text, step_text
from flagperf.run.times import MILESTONES, PhaseTimes

TRAIN_INTERVAL = 5.0  # seconds between two lines of training progress, in the run's log and where there is no terminal
SLOW = 1.0  # seconds of a phase from which on a node counts as slow
PATIENCE = 10.0  # seconds without a line before the first step; then a line shows the progress, without a terminal
FEW = 8  # most nodes that are all named; …
SLOWEST = 3  # … of more nodes, only this many
BEFORE_STEPS = tuple(MILESTONES.values())[:-1]  # the phases of the start, without the first step

REACHED = "that is the target, but sample data shows nothing: the training ends (stop_on_sample_data=false: it goes on)"

Objections = Callable[[Mapping[str, Any]], Sequence[str]]

log = logging.getLogger(__name__)


def _ends_on_sample_data(config: Mapping[str, Any]) -> bool:
    """Whether a training on sample data ends at the value of its target."""
    ends = config.get("size") == "full" and config.get("stop_on_sample_data")
    return bool(ends) and (is_sample_folder(config) or is_sample_data(config["data_dir"]))


class Progress:
    """Shows and logs one round. A terminal has one changing line; elsewhere plain lines come every few seconds at most.

    Args:
        objections: BUILT event of rank 0 → reasons for the verdict INVALID, shown before the first step.
    """

    def __init__(self, job: JobConfig, console: Console | None = None, objections: Objections = lambda _: ()) -> None:
        self.console = console or Terminal()
        self.unit, self._objections = job.throughput_unit, objections
        self._goals = job.target.values if job.target else {}
        self._ends_at = job.target if _ends_on_sample_data(job.config) else None
        self._metric = ""  # the last evaluation of the target's metrics
        self._time_left = TimeLeft(job)
        self._began = time.monotonic()
        self._written = float("-inf")  # time of the last line of training
        self._unwritten: Mapping[str, Any] | None = None  # the last step, if it has no line yet
        self._at: dict[str, tuple[str, float]] = {}  # host → its phase, and the time of its begin
        self._took: dict[str, dict[str, float]] = {}  # phase → host → seconds, of hosts that have ended the phase
        self._printed = self._began  # time of the last line
        self._status: Status | None = Status("", console=self.console) if self.console.is_terminal else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._last_step()
        self._hide_status()

    def phase(self, name: str, hosts: Sequence[str]) -> None:
        """A phase begins on these hosts."""
        self._at, self._took = dict.fromkeys(hosts, (name, time.monotonic())), {}
        self._line(f"{name:8}{', '.join(hosts) if len(hosts) <= FEW else f'{len(hosts)} hosts'}")
        self._show_phases()

    def ended(self, name: str, host: str, seconds: float) -> None:
        """A host has ended the phase. Of several hosts the slow ones are named."""
        del self._at[host]
        took = self._took.setdefault(name, {})
        took[host] = seconds
        host_count = len(self._at) + len(took)
        if 1 < host_count <= FEW and seconds >= SLOW:
            self.working(f"{host}: {seconds:.1f} s")
        elif host_count > FEW and not self._at and max(took.values()) >= SLOW:
            self.working(seconds_text(took))
        elif host_count > FEW and self._status is None and time.monotonic() - self._printed > PATIENCE:
            self.working(f"{len(took)} of {host_count} hosts")
        self._show_phases()

    def starting(self, times: Mapping[str, PhaseTimes]) -> None:
        """Show the phase of each host's ranks until their first step: launch, imports, init, first_step.

        Without a terminal, a line has the times of a phase that all hosts have ended, or the phases after long silence.
        """
        now = time.monotonic()
        for phase in BEFORE_STEPS:
            if phase not in self._took and all(phase in host_times.seconds for host_times in times.values()):
                self._took[phase] = {host: host_times.seconds[phase] for host, host_times in times.items()}
                self._line(f"{phase:8}{seconds_text(self._took[phase])}")
        for host, host_times in times.items():
            if self._at.get(host, ("",))[0] != host_times.starting:
                self._at[host] = host_times.starting, now
        self._show_phases()
        if self._status is None and now - self._printed > PATIENCE:
            self._line(f"{phases_text(self._at, now)} so far")

    def working(self, text: str) -> None:
        """Show a message of a long phase."""
        self._line(f"{'':8}{text}")

    def event(self, event: Event) -> None:
        """Show an event of rank 0."""
        now = time.monotonic()
        self._time_left.observe(event, now)
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
        """Show the failure of the round. Called before the nodes are stopped."""
        self._last_step()
        log.error("%s", failure)
        self._print(f"failed  {failure}", style="red")

    def _step(self, value: Mapping[str, Any], now: float) -> None:
        text = self._text(value, self._time_left.seconds(now))
        self._renew(lambda: text)
        self._unwritten = value
        if now - self._written < TRAIN_INTERVAL:
            return
        self._written = now
        log.info("%s", text)
        if self._status is None:
            self._print(text)
            self._unwritten = None

    def _text(self, value: Mapping[str, Any], seconds_left: float | None) -> str:
        metric, last = self._metric, self._time_left.last_step
        return f"{'train':8}{step_text(value, self.unit, seconds_left, last=last, metric=metric)}"

    def _last_step(self) -> None:
        """Write the line of the last step at the end of training."""
        self._hide_status()
        value, self._unwritten = self._unwritten, None
        if value is not None:
            self._line(self._text(value, None))

    def _show_phases(self) -> None:
        """Show the phase of each host, and its seconds."""
        if at := dict(self._at):
            self._renew(lambda: phases_text(at, time.monotonic()))
        else:
            self._hide_status()

    def _renew(self, text: Callable[[], str]) -> None:
        """Show a changing line, with the seconds since the begin."""
        if self._status is not None:
            self._status.update(_Renewed(lambda: self._stamp() + text()))
            self._status.start()

    def _hide_status(self) -> None:
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
    """A line whose text is computed each time it is shown."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __rich__(self) -> Text:
        return Text(self._text(), no_wrap=True, overflow="ellipsis")


def phases_text(at: Mapping[str, tuple[str, float]], now: float) -> str:
    """ "init    n1 3 s, n2 4 s; imports n3 4 s"; of many hosts only the number in each phase, and the longest time."""
    hosts: dict[str, dict[str, float]] = {}
    for host, (phase, since) in at.items():
        hosts.setdefault(phase, {})[host] = now - since
    few = len(at) <= FEW
    parts = {
        phase: ", ".join(f"{host} {seconds:.0f} s" for host, seconds in seconds_by_host.items())
        if few
        else f"{len(seconds_by_host)} hosts {max(seconds_by_host.values()):.0f} s"
        for phase, seconds_by_host in hosts.items()
    }
    return "; ".join(f"{phase:7} {part}" for phase, part in parts.items())


def seconds_text(took: Mapping[str, float]) -> str:
    """ "n1 3.0 s, n2 4.1 s"; of many hosts the slowest."""
    if len(took) <= FEW:
        return ", ".join(f"{host} {seconds:.1f} s" for host, seconds in took.items())
    last = sorted(took.items(), key=lambda item: -item[1])[:SLOWEST]
    return "slowest: " + ", ".join(f"{host} {seconds:.1f} s" for host, seconds in last)
