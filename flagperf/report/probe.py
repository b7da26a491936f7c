"""The figures of a probe as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from flagperf.contract.records import ProbedDevice
from flagperf.report.cells import ABSENT, number
from flagperf.results.probe import FIGURES


def probe_rows(devices: Sequence[ProbedDevice], hardware: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each device, then their mean, then the figures of the data sheet where known.

    Args:
        hardware: the product, as a configuration has it.
    """
    names = [name for name in FIGURES if any(name in device.figures for device in devices)]
    rows = [_probe_row(str(device.rank), device.host, device.device, device.figures, names) for device in devices]
    if len(devices) > 1:
        mean = {name: fmean(d.figures[name] for d in devices if name in d.figures) for name in names}
        rows.append(_probe_row("mean", "", "", mean, names))
    known = {**(hardware.get("peak_flops") or {}), "memory": hardware.get("memory_bandwidth")}
    if sheet := {name: float(figure) for name, figure in known.items() if figure is not None and name in names}:
        rows.append(_probe_row("data sheet", "", "", sheet, names))
    return rows


def _probe_row(rank: str, host: str, device: str, values: Mapping[str, float], names: Iterable[str]) -> dict[str, str]:
    columns = {f"{FIGURES[name].title} [{FIGURES[name].unit}]": (name, FIGURES[name].factor) for name in names}
    figures = {
        title: number(factor * values[name]) if name in values else ABSENT for title, (name, factor) in columns.items()
    }
    return {"rank": rank, "host": host, "device": device, **figures}
