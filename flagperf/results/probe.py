"""The PROBE events of a round → what each device achieved, and which devices are slower than their fellows."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flagperf.contract.records import ProbedDevice
from flagperf.results.rank_log import RankLog

SLOWER = 0.1  # a device is slower than its fellows by more than this share of their mean, and more than their sigma


@dataclass(frozen=True)
class ProbeFigure:
    """How people are shown a figure of a probe."""

    title: str
    unit: str
    factor: float  # from FLOP/s or bytes/s
    of_one: bool = True  # whether each device has its own; all devices share the all-reduce over nodes


FIGURES = {
    "fp32": ProbeFigure("fp32", "TFLOP/s", 1e-12),
    "tf32": ProbeFigure("tf32", "TFLOP/s", 1e-12),
    "fp16": ProbeFigure("fp16", "TFLOP/s", 1e-12),
    "bf16": ProbeFigure("bf16", "TFLOP/s", 1e-12),
    "memory": ProbeFigure("memory", "GB/s", 1e-9),
    "host_to_device": ProbeFigure("host to device", "GB/s", 1e-9),
    "all_reduce_node": ProbeFigure("all-reduce, node", "GB/s", 1e-9),
    "all_reduce": ProbeFigure("all-reduce, nodes", "GB/s", 1e-9, of_one=False),
}


def probed_devices(logs: Iterable[RankLog]) -> tuple[ProbedDevice, ...]:
    """What the ranks measured, by rank; empty without a probe."""
    return tuple(
        ProbedDevice(
            log.rank,
            log.host,
            found[-1].value.get("device") or "unknown",
            {name: float(found[-1].value[name]) for name in FIGURES if found[-1].value.get(name) is not None},
        )
        for log in logs
        if (found := log.all("PROBE"))
    )


def slower_devices(devices: Sequence[ProbedDevice]) -> Iterator[str]:
    """A line for each figure in which a device is slower than its fellows, the other devices of the job.

    It is, where it lies below their mean by more than 10 % and by more than one standard deviation of theirs. A device
    counts among the fellows of others but not among its own: of two, one can be slower.
    """
    for name, figure in FIGURES.items():
        known = [device for device in devices if name in device.figures] if figure.of_one else []
        for device in known:
            own, fellows = device.figures[name], [other.figures[name] for other in known if other is not device]
            mean = statistics.fmean(fellows) if fellows else 0.0
            if fellows and own < mean - statistics.pstdev(fellows) and own < mean * (1 - SLOWER):
                who = f"rank {device.rank} on {device.host} is slower than its fellows"
                what = f"{figure.title} {own * figure.factor:.4g} {figure.unit}"
                yield f"{who}: {what}, {1 - own / mean:.0%} below their {mean * figure.factor:.4g}"
