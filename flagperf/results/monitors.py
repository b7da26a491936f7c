"""FlagPerf's monitor logs of a node → mean, maximum, coverage, energy. From the files alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.contract.monitor_log import (
    DEVICE_FIGURES,
    NODE_FIGURES,
    NOT_AVAILABLE,
    Device,
    device_blocks,
    monitor_logs,
    node_samples,
)

GAP = 3.0  # times the usual distance: two samples that are further apart have a hole between them
JOULES_PER_WH = 3600.0


class Point(NamedTuple):
    """One figure of one sample; of a counter also its reading."""

    time: float  # seconds since the epoch
    value: float
    counter: float | None = None  # J


DeviceSample = tuple[float, list[Device]]  # seconds since the epoch; devices in the tool's order, or the job's


def summarize(folder: Path, started: float, ended: float, devices: Sequence[int] | None = None) -> dict[str, Any]:
    """Sum up the monitor logs of a node.

    Args:
        folder: the node's log folder.
        started, ended: the time that counts, seconds since the epoch, as PerfLog's TRAIN_START and TRAIN_END say.
        devices: the devices of the node that the job used, as places in the tool's output; None: all.

    Returns:
        Per monitor (cpu, mem, pwr, and the vendor's name) a mapping. cpu and mem, as fractions: `mean`, `max`,
        `coverage`. pwr, in W: these and the fields of energy below, and `source`: "node" (management controller) or
        "rapl" (processors and main memory only). The vendor's: `devices`, how many of them count, `indices`, their
        places, and per figure that the tool knows the same mapping: temperature (C), power (W, these devices together,
        with energy), memory_used and memory_total (MiB), utilisation (%), clock (MHz); the mean is over devices too,
        the maximum is the highest of any one device. Its own `devices` says of how many the figure is known; energy is
        there only where that is all of them.

        Energy: `energy_j` and `energy_wh` of the whole time; `idle_w`, the lowest power seen before `started`;
        `energy_above_idle_j`, which leaves that power out. Coverage is the share of the time that lies between two
        samples that follow each other as usual; what it leaves out counts with the mean of the rest.

        `impossible`, where there are any: figure → how many values of these devices were left out in that time, since
        no device can have them (`flagperf.contract.monitor_log.Figure`); of cpu, mem and pwr just how many.

        A monitor without figures is `{"not_available": why}`, with a coverage of 0 where it has samples; one without a
        log is absent.
    """
    found: dict[str, Any] = {}
    for name, text in monitor_logs(folder):
        if name in NODE_FIGURES:
            figures = _node_figures(text, name, started, ended)
        else:
            figures = _device_figures(text, started, ended, devices)
        if figures := figures or _without_figures(name, text, started, ended):
            found[name] = figures
    return found


def job_energy(nodes: Mapping[str, Mapping[str, Any]], samples: float | None) -> Mapping[str, Mapping[str, Any]]:
    """Energy of a job over its nodes, from what `summarize` gave for each.

    Returns:
        "node" (whole nodes), "rapl" (processors and memory) and "devices", those that are known on any node: each
        with energy_j, energy_wh, coverage (the lowest), energy_above_idle_j where known, and, per one of `samples`,
        energy_per_sample_j. Where a node does not know it: `not_available`, which node and why, and a coverage of 0.
    """
    found: dict[str, dict[str, Any]] = {}
    for kind in ("node", "rapl", "devices"):
        known = {name: list(_energies(node, kind)) for name, node in nodes.items()}
        parts = [part for of_node in known.values() for part in of_node]
        if not parts:
            continue
        if lacking := [name for name, of_node in known.items() if not of_node]:
            why = "; ".join(f"{name}: {_lack(nodes[name], kind)}" for name in lacking)
            found[kind] = {"not_available": why, "coverage": 0.0}
            continue
        total = sum(part["energy_j"] for part in parts)
        job = {
            "energy_j": total,
            "energy_wh": total / JOULES_PER_WH,
            "coverage": min(part["coverage"] for part in parts),
        }
        if all("energy_above_idle_j" in part for part in parts):
            job["energy_above_idle_j"] = sum(part["energy_above_idle_j"] for part in parts)
        if samples:
            job["energy_per_sample_j"] = total / samples
        found[kind] = job
    return found


def _energies(node: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    """The mappings of a node that hold this kind of energy."""
    for name, figures in node.items():
        part = figures if name == "pwr" else figures.get("power", {}) if name not in NODE_FIGURES else {}
        if "energy_j" in part and kind == (part["source"] if name == "pwr" else "devices"):
            yield part


def _lack(node: Mapping[str, Any], kind: str) -> str:
    """Why a node does not know this kind of energy."""
    names = [name for name in node if (name not in NODE_FIGURES if kind == "devices" else name == "pwr")]
    whys = [node[name]["not_available"] for name in names if "not_available" in node[name]]
    return "; ".join(whys) or "its monitors do not tell it"


def _node_figures(text: str, name: str, started: float, ended: float) -> dict[str, Any]:
    """cpu, mem or pwr."""
    told = [Point(time, *values[:2]) for time, values in node_samples(text)]
    points = [point for point in told if NODE_FIGURES[name].can_be(point.value)]
    figures: dict[str, Any] = _figures(points, started, ended)
    if figures and name == "pwr":
        source = "rapl" if points[-1].counter is not None else "node"
        figures |= {"source": source, **_energy(points, started, ended)}
    within = [point.value for point in told if started <= point.time <= ended]
    if left_out := sum(not NODE_FIGURES[name].can_be(value) for value in within):
        figures["impossible"] = left_out
    return figures


def _device_figures(text: str, started: float, ended: float, devices: Sequence[int] | None) -> dict[str, Any]:
    blocks = list(device_blocks(text))
    most = max((len(block) for _, block in blocks), default=0)
    indices = list(range(most) if devices is None else devices)
    if blocks and indices and min(indices) >= most:
        return {"not_available": f"the tool shows {most} devices, and none of those of the job, {indices}"}
    whole = [(time, block) for time, block in blocks if len(block) == most]  # else nobody knows which one is missing
    told = [(time, [_device(block, index) for index in indices]) for time, block in whole]
    samples = [(time, [device.possible() for device in sample]) for time, sample in told]
    names = [name for name, figure in DEVICE_FIGURES.items() if not figure.counter]
    figures = {name: _device_figure(name, samples, started, ended) for name in names}
    known: dict[str, Any] = {name: found for name, found in figures.items() if found}
    if left_out := _left_out([device for time, sample in told if started <= time <= ended for device in sample]):
        known["impossible"] = left_out
    return {"devices": len(indices), "indices": indices, **known} if known else {}


def _device(block: Sequence[Device], index: int) -> Device:
    """A device of a block. It has no figures when the tool left it out."""
    return block[index] if index < len(block) else Device()


def _left_out(devices: Sequence[Device]) -> dict[str, int]:
    """Figure → how many values of it are none, because no device can have them."""
    pairs = [(device, device.possible()) for device in devices]
    counts = {name: sum(getattr(one, name) != getattr(other, name) for one, other in pairs) for name in DEVICE_FIGURES}
    return {name: count for name, count in counts.items() if count}


def _device_figure(name: str, samples: Sequence[DeviceSample], started: float, ended: float) -> dict[str, float]:
    """One figure, over the devices for which the tool knows it."""
    each = [(time, [getattr(device, name) for device in sample]) for time, sample in samples]
    within = [values for time, values in each if started <= time <= ended]
    telling = [place for place, told in enumerate(zip(*within, strict=True)) if set(told) != {None}]
    picked = [(time, [values[place] for place in telling]) for time, values in each]
    known = [(time, values) for time, values in picked if values and None not in values]
    combine: Callable[[Iterable[float]], float] = sum if name == "power" else statistics.fmean
    figures = _figures([Point(time, combine(values)) for time, values in known], started, ended)
    if not figures:
        return {}
    if name != "power":
        figures["max"] = max(max(values) for time, values in known if started <= time <= ended)
    elif len(telling) == len(samples[0][1]):  # the energy of some devices must not pass for that of the job
        figures |= _energy([_power_point(time, sample) for time, sample in samples], started, ended)
    return {**figures, "devices": len(telling)}


def _power_point(time: float, sample: list[Device]) -> Point:
    """Power of all devices together, with their counters where all have one."""
    powers = [device.power for device in sample if device.power is not None]
    counters = [device.energy for device in sample if device.energy is not None]
    power = math.fsum(powers) if len(powers) == len(sample) else math.nan
    return Point(time, power, math.fsum(counters) if len(counters) == len(sample) else None)


def _figures(points: list[Point], started: float, ended: float) -> dict[str, float]:
    """Mean, maximum and coverage of the samples within the time; empty without samples."""
    values = [point.value for point in points if started <= point.time <= ended]
    if not values:
        return {}
    covered = sum(seconds for _, _, seconds in _stretches(points, started, ended))
    return {"mean": statistics.fmean(values), "max": max(values), "coverage": covered / max(ended - started, 1e-9)}


def _energy(points: list[Point], started: float, ended: float) -> dict[str, float]:
    """Energy of the time, and the part of it above the idle power; empty without two samples in a row."""
    covered = joules = 0.0
    for before, after, seconds in _stretches(points, started, ended):
        power = _power_between(before, after)
        if not math.isnan(power):
            covered += seconds
            joules += power * seconds
    if not covered:
        return {}
    total = joules / covered * (ended - started)
    figures = {"energy_j": total, "energy_wh": total / JOULES_PER_WH}
    idle = [point.value for point in points if point.time < math.floor(started) and not math.isnan(point.value)]
    if idle:
        figures |= {"idle_w": min(idle), "energy_above_idle_j": total - min(idle) * (ended - started)}
    return figures


def _power_between(before: Point, after: Point) -> float:
    """Mean power from one sample to the next: by the counter, else the mean of the two readings."""
    if before.counter is not None and after.counter is not None and after.counter >= before.counter:
        return (after.counter - before.counter) / (after.time - before.time)
    return (before.value + after.value) / 2


def _stretches(points: list[Point], started: float, ended: float) -> Iterator[tuple[Point, Point, float]]:
    """Neighbouring samples and the seconds of the time between them, without holes."""
    pairs = [(before, after) for before, after in pairwise(points) if after.time > before.time]
    if not pairs:
        return
    longest = GAP * statistics.median(after.time - before.time for before, after in pairs)
    for before, after in pairs:
        seconds = min(after.time, ended) - max(before.time, started)
        if seconds > 0 and after.time - before.time <= longest:
            yield before, after, seconds


def _without_figures(name: str, text: str, started: float, ended: float) -> dict[str, Any]:
    """Why a log has no figures of the time; empty where it says nothing at all."""
    if why := next((line.split(NOT_AVAILABLE, 1)[1] for line in text.splitlines() if NOT_AVAILABLE in line), None):
        return {"not_available": why}
    times = [time for time, _ in (node_samples(text) if name in NODE_FIGURES else device_blocks(text))]
    away = {max(started - time, time - ended): "before" if time < started else "after" for time in times}
    if not away or min(away) <= 0:
        return {}
    nearest = f"the nearest is {min(away):.0f} s {away[min(away)]} it"
    return {"not_available": f"no sample lies in the training, {nearest} (of {len(times)})", "coverage": 0.0}
