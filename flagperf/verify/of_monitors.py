"""Means, maxima and energy of a round, from the monitor logs of its nodes. What they are: docs/monitors.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from flagperf.verify.logs import Round
from flagperf.verify.monitor_logs import Sample, samples
from flagperf.verify.values import Derivation, Row, UnknownError, row, rows

HOLE = 3.0  # times the usual distance of two samples
JOULES = 3600.0  # of a watt-hour
STAMPS = (1e-6, 1e-6)  # times are rounded to ms
ENERGIES = ("energy_j", "energy_wh", "idle_w", "energy_above_idle_j")
NODE_MONITORS = ("cpu", "mem", "pwr")


@dataclass(frozen=True)
class Point:
    """One figure at one moment."""

    seconds: float
    value: float
    counter: float | None = None  # J


@dataclass(frozen=True)
class Series:
    """The samples of a figure, and the time that counts."""

    points: Sequence[Point]
    started: float
    ended: float

    def within(self) -> list[float]:
        found = [one.value for one in self.points if self.started <= one.seconds <= self.ended]
        if not found:
            raise UnknownError("no sample lies in the training")
        return found

    def stretches(self) -> list[tuple[Point, Point, float]]:
        """Two samples that follow each other without a hole, and the seconds of the time between them."""
        steps = [(one, two) for one, two in pairwise(self.points) if two.seconds > one.seconds]
        if not steps:
            return []
        usual = statistics.median(two.seconds - one.seconds for one, two in steps)
        inside = [
            (one, two, min(two.seconds, self.ended) - max(one.seconds, self.started))
            for one, two in steps
            if two.seconds - one.seconds <= HOLE * usual
        ]
        return [found for found in inside if found[2] > 0]


def _coverage(series: Series) -> float:
    return sum(seconds for _, _, seconds in series.stretches()) / (series.ended - series.started)


def _energy(series: Series) -> float:
    """Joules of the whole time. What no two samples cover counts with the mean power of the rest."""
    covered = joules = 0.0
    for one, two, seconds in series.stretches():
        power = (one.value + two.value) / 2
        if one.counter is not None and two.counter is not None and two.counter >= one.counter:
            power = (two.counter - one.counter) / (two.seconds - one.seconds)
        if not math.isnan(power):
            covered, joules = covered + seconds, joules + power * seconds
    if not covered:
        raise UnknownError("no two samples follow each other in the training")
    return joules / covered * (series.ended - series.started)


def _idle(series: Series) -> float:
    before = [one.value for one in series.points if one.seconds < math.floor(series.started)]
    return min(value for value in before if not math.isnan(value))


OF_A_SERIES: Mapping[str, tuple[Callable[[Series], float], str]] = {
    "mean": (lambda series: statistics.fmean(series.within()), "mean of the samples"),
    "max": (lambda series: max(series.within()), "the highest sample"),
    "coverage": (_coverage, "share of the time between two samples"),
    "energy_j": (_energy, "counter, or area under the power"),
    "energy_wh": (lambda series: _energy(series) / JOULES, "counter, or area under the power"),
    "idle_w": (_idle, "the lowest sample before the training"),
    "energy_above_idle_j": (
        lambda series: _energy(series) - _idle(series) * (series.ended - series.started),
        "energy less idle power",
    ),
}


@dataclass(frozen=True)
class Monitor:
    """A monitor of a node, as result.json states it."""

    round: Round
    node: Path
    name: str
    stated: Mapping[str, Any]

    def series(self, figure: str, key: str) -> Series:
        """The points that a value is made of; `figure` is empty where the monitor has but one."""
        own = next(rank for rank in self.round.ranks if rank.node.name == self.node.name)
        first = self.round.ranks[0]
        shift = _ahead(self.node) - _ahead(first.node)  # what rank 0 says, by this node's clock
        started, ended = (first.last(name).seconds + shift for name in ("TRAIN_START", "TRAIN_END"))
        found = samples(self.node / f"{self.name}_monitor.log", own.events[0].seconds)
        if not figure:
            points = [Point(one.seconds, one.devices[0]["value"], one.devices[0].get("counter")) for one in found]
        else:
            used = [Sample(one.seconds, tuple(_at(one, index) for index in self.stated["indices"])) for one in found]
            points = _of_energy(used) if key in ENERGIES else _of_devices(used, figure, key, started, ended)
        return Series(points, started, ended)

    def energy(self, key: str) -> float:
        """One of ENERGIES."""
        figure = "" if self.name in NODE_MONITORS else "power"
        return OF_A_SERIES[key][0](self.series(figure, key))


def _at(sample: Sample, index: int) -> dict[str, float]:
    return sample.devices[index] if index < len(sample.devices) else {}


def _of_devices(used: Sequence[Sample], figure: str, key: str, started: float, ended: float) -> list[Point]:
    """One point a sample, of the devices that tell the figure: power adds up, of the others it is the mean.

    The maximum is the highest of any one device, but for power.
    """
    within = [one for one in used if started <= one.seconds <= ended]
    telling = sorted({place for one in within for place, device in enumerate(one.devices) if figure in device})
    combine = math.fsum if figure == "power" else max if key == "max" else statistics.fmean
    points = []
    for one in used:
        values = [one.devices[place][figure] for place in telling if figure in one.devices[place]]
        if values and len(values) == len(telling):
            points.append(Point(one.seconds, combine(values)))
    return points


def _of_energy(used: Sequence[Sample]) -> list[Point]:
    """Power and counters of all devices together, where each tells them."""
    points = []
    for one in used:
        powers = [device["power"] for device in one.devices if "power" in device]
        counters = [device["energy"] for device in one.devices if "energy" in device]
        power = math.fsum(powers) if len(powers) == len(one.devices) else math.nan
        points.append(Point(one.seconds, power, math.fsum(counters) if len(counters) == len(one.devices) else None))
    return points


def _ahead(node: Path) -> float:
    """Seconds that the clock of a node was ahead of the launcher's, as its sys_info.log says."""
    log = node / "sys_info.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    found = [line.removeprefix("clock_offset: ") for line in lines if line.startswith("clock_offset: ")]
    return float(found[0]) if found else 0.0


def rows_of_monitors(place: str, round_: Round) -> Iterator[Row]:
    """A row for each figure that result.json states of a node's monitors, and for the energy of the job."""
    stated = round_.stated.get("monitors") or {}
    nodes: Mapping[str, Any] = stated.get("nodes") or {}
    for node, monitors in nodes.items():
        for name, figures in monitors.items():
            yield from _of_monitor(place, Monitor(round_, round_.folder / node, name, figures))
    for kind, figures in (stated.get("energy") or {}).items():
        yield from _of_energy_of_job(place, round_, kind, figures)


def _of_monitor(place: str, monitor: Monitor) -> Iterator[Row]:
    parts = {"": monitor.stated, **{key: part for key, part in monitor.stated.items() if isinstance(part, Mapping)}}
    for figure, part in parts.items():
        title = " ".join(filter(None, (monitor.node.name, monitor.name, figure)))
        if "not_available" in part:
            yield Row(place, title, None, None, "not recomputed", f"not measured: {part['not_available']}")
            continue
        for key, (compute, how) in OF_A_SERIES.items():
            if key in part:
                way = Derivation(partial(_compute, compute, figure, key), how, STAMPS)
                yield row(place, f"{title} {key}", part[key], way, monitor)


def _compute(compute: Callable[[Series], float], figure: str, key: str, monitor: Monitor) -> float:
    return compute(monitor.series(figure, key))


def _of_energy_of_job(place: str, round_: Round, kind: str, figures: Mapping[str, Any]) -> Iterator[Row]:
    """The energy of a kind is the sum over the nodes."""
    if "not_available" in figures:
        yield Row(place, f"energy of {kind}", None, None, "not recomputed", f"not measured: {figures['not_available']}")
        return

    def total(key: str) -> Callable[[Round], float]:
        return lambda one: math.fsum(monitor.energy(key) for monitor in _meters(one, kind))

    joules = total("energy_j")
    ways = {
        **{key: Derivation(total(key), "the sum over the nodes", STAMPS) for key in ENERGIES if key != "idle_w"},
        "energy_per_sample_j": Derivation(
            lambda one: joules(one) / sum(own["samples"] for own in one.measured), "energy over samples", STAMPS
        ),
    }
    for found in rows(place, figures, ways, round_):
        yield replace(found, figure=f"energy of {kind}: {found.figure}")


def _meters(round_: Round, kind: str) -> list[Monitor]:
    """The monitors of all nodes that tell this kind of energy."""
    found = []
    for node, monitors in round_.stated["monitors"]["nodes"].items():
        for name, figures in monitors.items():
            of_devices = kind == "devices" and name not in NODE_MONITORS and "energy_j" in figures.get("power", {})
            if of_devices or (name == "pwr" and figures.get("source") == kind):
                found.append(Monitor(round_, round_.folder / node, name, figures))
    if len(found) != len(round_.stated["monitors"]["nodes"]):
        raise UnknownError("not every node tells it")
    return found
