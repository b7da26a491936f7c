"""The PROBE events of a round → the figures of each device, and the devices that are slower than the others."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flagperf.contract.records import ProbedDevice
from flagperf.results.rank_log import RankLog

SLOWER = 0.1  # a slow device lies below the mean of the others by more than this share, and by more than their sigma


@dataclass(frozen=True)
class ProbeFigure:
    """How a figure of a probe is shown: title, unit and factor."""

    title: str
    unit: str
    factor: float  # from FLOP/s or bytes/s
    of_one: bool = True  # whether each device has its own value; all devices share the all-reduce over nodes


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
    """The figures that each rank measured; empty without a probe."""
    return tuple(
        ProbedDevice(
            log.rank,
            log.host,
            events[-1].value.get("device") or "unknown",
            {name: float(events[-1].value[name]) for name in FIGURES if events[-1].value.get(name) is not None},
        )
        for log in logs
        if (events := log.all("PROBE"))
    )


def slower_devices(devices: Sequence[ProbedDevice]) -> Iterator[str]:
    """A line for each figure in which a device is slower than its fellows, the other devices of the job.

    Its value lies below the mean of its fellows by more than 10 %, and by more than their standard deviation.
    """
    for name, figure in FIGURES.items():
        known = [device for device in devices if name in device.figures] if figure.of_one else []
        for device in known:
            value, fellows = device.figures[name], [other.figures[name] for other in known if other is not device]
            mean = statistics.fmean(fellows) if fellows else 0.0
            if fellows and value < mean - statistics.pstdev(fellows) and value < mean * (1 - SLOWER):
                device_text = f"rank {device.rank} on {device.host} is slower than its fellows"
                figure_text = f"{figure.title} {value * figure.factor:.4g} {figure.unit}"
                yield f"{device_text}: {figure_text}, {1 - value / mean:.0%} below their {mean * figure.factor:.4g}"
