"""The figures of a probe as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from flagperf.contract.records import ProbedDevice
from flagperf.report.cells import ABSENT, number
from flagperf.results.probe import FIGURES


def probe_rows(devices: Sequence[ProbedDevice], peaks: Mapping[str, float]) -> list[dict[str, str]]:
    """A row for each device, then their mean, then the figures of the data sheet where known.

    Args:
        peaks: precision → FLOP/s of a device, of the data sheet.
    """
    names = [name for name in FIGURES if any(name in device.figures for device in devices)]
    rows = [_probe_row(str(device.rank), device.host, device.device, device.figures, names) for device in devices]
    if len(devices) > 1:
        mean = {name: fmean(d.figures[name] for d in devices if name in d.figures) for name in names}
        rows.append(_probe_row("mean", "", "", mean, names))
    if peaks and devices:
        rows.append(_probe_row("data sheet", "", "", peaks, names))
    return rows


def _probe_row(rank: str, host: str, device: str, values: Mapping[str, float], names: Iterable[str]) -> dict[str, str]:
    columns = {f"{FIGURES[name].title} [{FIGURES[name].unit}]": (name, FIGURES[name].factor) for name in names}
    figures = {
        title: number(factor * values[name]) if name in values else ABSENT for title, (name, factor) in columns.items()
    }
    return {"rank": rank, "host": host, "device": device, **figures}
