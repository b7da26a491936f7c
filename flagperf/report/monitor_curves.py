"""The curves in a node's monitor logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.monitor_log import (
    DEVICE_FIGURES,
    NODE_FIGURES,
    Figure,
    device_blocks,
    monitor_logs,
    node_samples,
)

Curve = list[list[float]]  # [seconds since the epoch, value]

DEVICE_CURVES = {  # figure → title, of the mean over the devices
    "utilisation": DEVICE_FIGURES["utilisation"].title,
    "memory_used": "accelerator memory",
    "power": "power of an accelerator",
    "temperature": DEVICE_FIGURES["temperature"].title,
    "clock": DEVICE_FIGURES["clock"].title,
}


def curves(folder: Path, monitors: Mapping[str, Any]) -> dict[str, Curve]:
    """Title → curve of every figure in a node's monitor logs. Curves of devices are means over the job's devices.

    Args:
        folder: the node's log folder.
        monitors: the part of `Result.monitors` for this node. It names the devices of the job.
    """
    curve_of: dict[str, Curve] = {}
    for name, text in monitor_logs(folder):
        curve_of |= (
            _node_curve(NODE_FIGURES[name], text)
            if name in NODE_FIGURES
            else _device_curves(text, monitors.get(name, {}).get("indices"))
        )
    return curve_of


def _node_curve(figure: Figure, text: str) -> dict[str, Curve]:
    points = [[time, figure.factor * values[0]] for time, values in node_samples(text) if figure.can_be(values[0])]
    return {_heading(figure.title, figure): points} if points else {}


def _device_curves(text: str, indices: Sequence[int] | None) -> dict[str, Curve]:
    curve_of: dict[str, Curve] = {}
    for time, devices in device_blocks(text):
        used = [device.possible() for index, device in enumerate(devices) if indices is None or index in indices]
        for name, title in DEVICE_CURVES.items():
            figure = DEVICE_FIGURES[name]
            values = [value for device in used if (value := getattr(device, name)) is not None]
            if values:
                point = [time, figure.factor * sum(values) / len(values)]
                curve_of.setdefault(_heading(title, figure), []).append(point)
    return curve_of


def _heading(title: str, figure: Figure) -> str:
    return f"{title[0].upper()}{title[1:]}, {figure.shown}"
