"""Recomputes means, maxima and energy of a round from the monitor logs of its nodes. docs/monitors.md defines them."""

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
from flagperf.verify.values import Derivation, Row, UnknownError, compare_all, recompute

HOLE = 3.0  # samples farther apart than this many usual intervals have a gap between them
JOULES = 3600.0  # per watt-hour
ROUNDED_TIMES = (1e-6, 1e-6)  # relative and absolute tolerance: times are rounded to ms
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
    """The samples of one figure, and the period that counts."""

    points: Sequence[Point]
    started: float
    ended: float

    def within(self) -> list[float]:
        """The values in the period. Raises UnknownError where the period has no sample."""
        values = [point.value for point in self.points if self.started <= point.seconds <= self.ended]
        if not values:
            raise UnknownError("no sample lies in the training")
        return values

    def stretches(self) -> list[tuple[Point, Point, float]]:
        """Pairs of consecutive samples without a gap, and the seconds of the period between them."""
        pairs = [(before, after) for before, after in pairwise(self.points) if after.seconds > before.seconds]
        if not pairs:
            return []
        usual = statistics.median(after.seconds - before.seconds for before, after in pairs)
        inside = [
            (before, after, min(after.seconds, self.ended) - max(before.seconds, self.started))
            for before, after in pairs
            if after.seconds - before.seconds <= HOLE * usual
        ]
        return [(before, after, seconds) for before, after, seconds in inside if seconds > 0]


def _coverage(series: Series) -> float:
    return sum(seconds for _, _, seconds in series.stretches()) / (series.ended - series.started)


def _energy(series: Series) -> float:
    """Joules of the whole period. Time in gaps counts with the mean power of the other time."""
    covered = joules = 0.0
    for before, after, seconds in series.stretches():
        power = (before.value + after.value) / 2
        if before.counter is not None and after.counter is not None and after.counter >= before.counter:
            power = (after.counter - before.counter) / (after.seconds - before.seconds)
        if not math.isnan(power):
            covered, joules = covered + seconds, joules + power * seconds
    if not covered:
        raise UnknownError("no two samples follow each other in the training")
    return joules / covered * (series.ended - series.started)


def _idle(series: Series) -> float:
    powers = [point.value for point in series.points if point.seconds < math.floor(series.started)]
    return min(power for power in powers if not math.isnan(power))


SERIES_FIGURES: Mapping[str, tuple[Callable[[Series], float], str]] = {
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
    """One monitor of a node, with its figures in result.json."""

    round: Round
    node: Path
    name: str
    stated: Mapping[str, Any]

    def series(self, figure: str, key: str) -> Series:
        """The samples of a value. `figure` is empty where the monitor has a single figure."""
        node_rank = next(rank for rank in self.round.ranks if rank.node.name == self.node.name)
        first = self.round.ranks[0]
        shift = _ahead(self.node) - _ahead(first.node)  # from rank 0's clock to the clock of this node
        started, ended = (first.last(name).seconds + shift for name in ("TRAIN_START", "TRAIN_END"))
        log = samples(self.node / f"{self.name}_monitor.log", node_rank.events[0].seconds)
        if not figure:
            values = [(sample.seconds, sample.devices[0]) for sample in log]
            points = [Point(seconds, value["value"], value.get("counter")) for seconds, value in values]
        else:
            used = [
                Sample(sample.seconds, tuple(_at(sample, index) for index in self.stated["indices"])) for sample in log
            ]
            points = _energy_points(used) if key in ENERGIES else _device_points(used, figure, key, started, ended)
        return Series(points, started, ended)

    def energy(self, key: str) -> float:
        """The energy of the node; `key` is one of ENERGIES."""
        figure = "" if self.name in NODE_MONITORS else "power"
        return SERIES_FIGURES[key][0](self.series(figure, key))


def _at(sample: Sample, index: int) -> dict[str, float]:
    return sample.devices[index] if index < len(sample.devices) else {}


def _device_points(used: Sequence[Sample], figure: str, key: str, started: float, ended: float) -> list[Point]:
    """One point for each sample, over the devices that report the figure.

    Power is the sum of the devices. Every other figure is the mean of the devices; its maximum is the highest value of
    any single device.
    """
    within = [sample for sample in used if started <= sample.seconds <= ended]
    reporting = sorted(
        {number for sample in within for number, device in enumerate(sample.devices) if figure in device}
    )
    combine = math.fsum if figure == "power" else max if key == "max" else statistics.fmean
    points = []
    for sample in used:
        values = [sample.devices[number][figure] for number in reporting if figure in sample.devices[number]]
        if values and len(values) == len(reporting):
            points.append(Point(sample.seconds, combine(values)))
    return points


def _energy_points(used: Sequence[Sample]) -> list[Point]:
    """Power and counters of all devices together, for the samples in which every device reports them."""
    points = []
    for sample in used:
        powers = [device["power"] for device in sample.devices if "power" in device]
        counters = [device["energy"] for device in sample.devices if "energy" in device]
        power = math.fsum(powers) if len(powers) == len(sample.devices) else math.nan
        counter = math.fsum(counters) if len(counters) == len(sample.devices) else None
        points.append(Point(sample.seconds, power, counter))
    return points


def _ahead(node: Path) -> float:
    """Seconds by which the clock of a node is ahead of the launcher's, from the node's sys_info.log."""
    log = node / "sys_info.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    offsets = [line.removeprefix("clock_offset: ") for line in lines if line.startswith("clock_offset: ")]
    return float(offsets[0]) if offsets else 0.0


def monitor_rows(location: str, round_: Round) -> Iterator[Row]:
    """One row for each figure that result.json states of a node's monitors, and for the energy of the job."""
    stated = round_.stated.get("monitors") or {}
    nodes: Mapping[str, Any] = stated.get("nodes") or {}
    for node, monitors in nodes.items():
        for name, figures in monitors.items():
            yield from _rows_of_monitor(location, Monitor(round_, round_.folder / node, name, figures))
    for kind, figures in (stated.get("energy") or {}).items():
        yield from _energy_rows(location, round_, kind, figures)


def _rows_of_monitor(location: str, monitor: Monitor) -> Iterator[Row]:
    parts = {"": monitor.stated, **{key: part for key, part in monitor.stated.items() if isinstance(part, Mapping)}}
    for figure, part in parts.items():
        title = " ".join(filter(None, (monitor.node.name, monitor.name, figure)))
        if "not_available" in part:
            why = f"not measured: {part['not_available']}"
            yield Row(location, title, None, None, "not recomputed", why)
            continue
        for key, (compute, how) in SERIES_FIGURES.items():
            if key in part:
                derivation = Derivation(partial(_compute, compute, figure, key), how, ROUNDED_TIMES)
                yield recompute(location, f"{title} {key}", part[key], derivation, monitor)


def _compute(compute: Callable[[Series], float], figure: str, key: str, monitor: Monitor) -> float:
    return compute(monitor.series(figure, key))


def _energy_rows(location: str, round_: Round, kind: str, figures: Mapping[str, Any]) -> Iterator[Row]:
    """The energy of the job by one kind of meter: the sum over the nodes."""
    title = f"energy of {kind}"
    if "not_available" in figures:
        yield Row(location, title, None, None, "not recomputed", f"not measured: {figures['not_available']}")
        return

    def total(key: str) -> Callable[[Round], float]:
        return lambda job_round: math.fsum(monitor.energy(key) for monitor in _meters(job_round, kind))

    def per_sample(job_round: Round) -> float:
        return total("energy_j")(job_round) / float(sum(rank["samples"] for rank in job_round.measured))

    derivations = {
        **{key: Derivation(total(key), "the sum over the nodes", ROUNDED_TIMES) for key in ENERGIES if key != "idle_w"},
        "energy_per_sample_j": Derivation(per_sample, "energy over samples", ROUNDED_TIMES),
    }
    for row in compare_all(location, figures, derivations, round_):
        yield replace(row, figure=f"{title}: {row.figure}")


def _meters(round_: Round, kind: str) -> list[Monitor]:
    """The monitors of all nodes that measure this kind of energy."""
    meters = []
    for node, monitors in round_.stated["monitors"]["nodes"].items():
        for name, figures in monitors.items():
            of_devices = kind == "devices" and name not in NODE_MONITORS and "energy_j" in figures.get("power", {})
            if of_devices or (name == "pwr" and figures.get("source") == kind):
                meters.append(Monitor(round_, round_.folder / node, name, figures))
    if len(meters) != len(round_.stated["monitors"]["nodes"]):
        raise UnknownError("not every node measures this kind of energy")
    return meters
