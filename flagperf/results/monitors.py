"""The monitor logs of a node → mean, maximum, coverage and energy. From the files alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.contract.monitor_log import (
    DEVICE_FIGURES,
    HOST,
    NODE_FIGURES,
    NOT_AVAILABLE,
    Device,
    device_blocks,
    monitor_logs,
    node_samples,
)

GAP = 3.0  # samples further apart than this many usual distances have a hole between them
JOULES_PER_WH = 3600.0


class Point(NamedTuple):
    """A figure of a sample, and the reading of its counter where it has one."""

    time: float  # seconds since the epoch
    value: float
    counter: float | None = None  # J


DeviceSample = tuple[float, list[Device]]  # seconds since the epoch; devices in the tool's order, or the job's


def summarize(folder: Path, started: float, ended: float, devices: Sequence[int] | None = None) -> dict[str, Any]:
    """Sum up the monitor logs of a node.

    Args:
        folder: the node's log folder.
        started, ended: the time that is summed up, in seconds since the epoch: TRAIN_START and TRAIN_END of PerfLog.
        devices: the devices of the node that the job used, as indices in the tool's output; None: all.

    Returns:
        A mapping for each monitor: cpu, mem, pwr, and the vendor's name.

        - cpu and mem, as fractions: `mean`, `max`, `coverage`.
        - pwr, in W: the same, the fields of energy below, and `source`: "node" (management controller) or "rapl"
          (processors and main memory only).
        - the vendor's: `devices` (their number), `indices`, and for each figure of the tool `mean` (over time and
          devices), `max` (of any device), `coverage` and `devices` (for how many devices the figure is known). The
          figures: temperature (C), power (W, the sum over these devices), memory_used and memory_total (MiB),
          utilisation (%), clock (MHz). Power has the fields of energy where it is known for all devices.

        Energy: `energy_j` and `energy_wh` of the whole time; `idle_w`, the lowest power before `started`;
        `energy_above_idle_j`, the energy without that power. Coverage is the share of the time between neighbouring
        samples without holes. Holes count with the mean of the rest.

        `impossible`: how many values were left out because no device can have them
        (`flagperf.contract.monitor_log.Figure`); a number for cpu, mem and pwr, otherwise figure → number. Absent
        where no value was left out.

        A monitor without figures is `{"not_available": reason}`, with a coverage of 0 where its log has samples. A
        monitor without a log is absent.
    """
    monitors: dict[str, Any] = {}
    for name, text in monitor_logs(folder):
        if name == HOST:  # flagperf.results.rank_monitors reads it
            continue
        if name in NODE_FIGURES:
            figures = _node_figures(text, name, started, ended)
        else:
            figures = _device_figures(text, started, ended, devices)
        if figures := figures or _without_figures(name, text, started, ended):
            monitors[name] = figures
    return monitors


def job_energy(nodes: Mapping[str, Mapping[str, Any]], samples: float | None) -> Mapping[str, Mapping[str, Any]]:
    """Energy of a job over all its nodes.

    Args:
        nodes: node name → what `summarize` returned.
        samples: that the job trained; None: not known.

    Returns:
        A mapping for each of "node" (whole nodes), "rapl" (processors and memory) and "devices" that any node knows:
        energy_j, energy_wh, coverage (the lowest), energy_above_idle_j where known, and energy_per_sample_j. Where a
        node does not know it: `not_available`, with the node and the reason, and a coverage of 0.
    """
    energies: dict[str, dict[str, Any]] = {}
    for kind in ("node", "rapl", "devices"):
        known = {name: list(_energies(node, kind)) for name, node in nodes.items()}
        parts = [part for of_node in known.values() for part in of_node]
        if not parts:
            continue
        if lacking := [name for name, of_node in known.items() if not of_node]:
            reason = "; ".join(f"{name}: {_lack(nodes[name], kind)}" for name in lacking)
            energies[kind] = {"not_available": reason, "coverage": 0.0}
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
        energies[kind] = job
    return energies


def _energies(node: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    """The mappings of a node that hold this kind of energy."""
    for name, figures in node.items():
        part = figures if name == "pwr" else figures.get("power", {}) if name not in NODE_FIGURES else {}
        if "energy_j" in part and kind == (part["source"] if name == "pwr" else "devices"):
            yield part


def _lack(node: Mapping[str, Any], kind: str) -> str:
    """The reason why a node does not know this kind of energy."""
    names = [name for name in node if (name not in NODE_FIGURES if kind == "devices" else name == "pwr")]
    reasons = [node[name]["not_available"] for name in names if "not_available" in node[name]]
    return "; ".join(reasons) or "its monitors do not report it"


def _node_figures(text: str, name: str, started: float, ended: float) -> dict[str, Any]:
    """cpu, mem or pwr."""
    samples = [Point(time, *values[:2]) for time, values in node_samples(text)]
    points = [point for point in samples if NODE_FIGURES[name].can_be(point.value)]
    figures: dict[str, Any] = _figures(points, started, ended)
    if figures and name == "pwr":
        source = "rapl" if points[-1].counter is not None else "node"
        figures |= {"source": source, **_energy(points, started, ended)}
    values = [point.value for point in samples if started <= point.time <= ended]
    if left_out := sum(not NODE_FIGURES[name].can_be(value) for value in values):
        figures["impossible"] = left_out
    return figures


def _device_figures(text: str, started: float, ended: float, devices: Sequence[int] | None) -> dict[str, Any]:
    blocks = list(device_blocks(text))
    most = max((len(block) for _, block in blocks), default=0)
    indices = list(range(most) if devices is None else devices)
    if blocks and indices and min(indices) >= most:
        return {"not_available": f"the tool shows {most} devices, and none of those of the job, {indices}"}
    complete = [
        (time, block) for time, block in blocks if len(block) == most
    ]  # in others the missing device is unknown
    selected = [(time, [_device(block, index) for index in indices]) for time, block in complete]
    samples = [(time, [device.possible() for device in sample]) for time, sample in selected]
    names = [name for name, figure in DEVICE_FIGURES.items() if not (figure.counter or figure.flags)]
    figures = {name: _device_figure(name, samples, started, ended) for name in names}
    known: dict[str, Any] = {name: figure for name, figure in figures.items() if figure}
    if left_out := _left_out([device for time, sample in selected if started <= time <= ended for device in sample]):
        known["impossible"] = left_out
    return {"devices": len(indices), "indices": indices, **known} if known else {}


def _device(block: Sequence[Device], index: int) -> Device:
    """A device of a block. It has no figures when the tool left it out."""
    return block[index] if index < len(block) else Device()


def _left_out(devices: Sequence[Device]) -> dict[str, int]:
    """Figure → how many of its values were left out, because no device can have them."""
    pairs = [(device, device.possible()) for device in devices]
    counts = {
        name: sum(getattr(reading, name) != getattr(possible, name) for reading, possible in pairs)
        for name in DEVICE_FIGURES
    }
    return {name: count for name, count in counts.items() if count}


def _device_figure(name: str, samples: Sequence[DeviceSample], started: float, ended: float) -> dict[str, float]:
    """A figure over the devices for which the tool knows it."""
    of_figure = [(time, [getattr(device, name) for device in sample]) for time, sample in samples]
    in_time = [values for time, values in of_figure if started <= time <= ended]
    known_devices = [index for index, readings in enumerate(zip(*in_time, strict=True)) if set(readings) != {None}]
    of_known = [(time, [values[index] for index in known_devices]) for time, values in of_figure]
    known = [(time, values) for time, values in of_known if values and None not in values]
    combine: Callable[[Iterable[float]], float] = sum if name == "power" else statistics.fmean
    figures = _figures([Point(time, combine(values)) for time, values in known], started, ended)
    if not figures:
        return {}
    if name != "power":
        figures["max"] = max(max(values) for time, values in known if started <= time <= ended)
    elif len(known_devices) == len(samples[0][1]):  # the energy of some devices must not pass for that of the job
        figures |= _energy([_power_point(time, sample) for time, sample in samples], started, ended)
    return {**figures, "devices": len(known_devices)}


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
    """The reason why a log has no figures of the time; empty where the log has no sample."""
    if reason := next((line.split(NOT_AVAILABLE, 1)[1] for line in text.splitlines() if NOT_AVAILABLE in line), None):
        return {"not_available": reason}
    times = [time for time, _ in (node_samples(text) if name in NODE_FIGURES else device_blocks(text))]
    distances = {max(started - time, time - ended): "before" if time < started else "after" for time in times}
    if not distances or min(distances) <= 0:
        return {}
    nearest = f"the nearest is {min(distances):.0f} s {distances[min(distances)]} it"
    return {"not_available": f"no sample lies in the training, {nearest} (of {len(times)})", "coverage": 0.0}
