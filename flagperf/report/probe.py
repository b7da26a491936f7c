"""What a probe measured, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from flagperf.contract.records import ProbedDevice
from flagperf.report.cells import ABSENT, number
from flagperf.results.probe import FIGURES


def probe_rows(devices: Sequence[ProbedDevice], peaks: Mapping[str, float]) -> list[dict[str, str]]:
    """What a probe measured, a line a device; then their mean, and where known what the data sheet promises.

    Args:
        peaks: FLOP/s of one device by precision, of the data sheet.
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
    shown = {f"{FIGURES[name].title} [{FIGURES[name].unit}]": (name, FIGURES[name].factor) for name in names}
    figures = {
        title: number(factor * values[name], 4) if name in values else ABSENT for title, (name, factor) in shown.items()
    }
    return {"rank": rank, "host": host, "device": device, **figures}
