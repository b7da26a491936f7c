"""What the monitors saw of one rank, beside the other ranks: its accelerator, its host, over some time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.monitor_log import (
    DEVICE_FIGURES,
    HOST,
    HOST_FIGURES,
    NODE_FIGURES,
    device_blocks,
    host_samples,
    monitor_logs,
    node_samples,
)
from flagperf.contract.sys_info import clock_offset
from flagperf.results.rank_log import node_folders
from flagperf.results.used_devices import used_devices

NODES = 16  # the other ranks on at most so many nodes are compared
SHOWN = ("temperature", "clock", "throttle", "power", "utilisation")  # figures of an accelerator

Figures = Mapping[str, float]


def rank_monitors(
    folder: Path, config: Mapping[str, Any], visible: Mapping[int, str | None], rank: int, started: float, ended: float
) -> dict[str, dict[str, float | None]]:
    """Figure → `own`: its mean at this rank; `others`: the median over the other ranks, None where none is known.

    Figures of a host are compared with other hosts.

    Args:
        folder: of the round.
        config: of the job.
        visible: node rank → value of the vendor's `visible_devices` in the environment of its ranks.
        started, ended: the time, in seconds since the epoch, by the launcher's clock.
    """
    nproc = int(config["nproc"])
    node_rank = rank // nproc
    folders = {number: path for _, number, path in node_folders(folder)}
    if node_rank not in folders:
        return {}
    devices, hosts = dict[int, Figures](), dict[int, Figures]()
    for number in [node_rank, *(number for number in folders if number != node_rank)][:NODES]:
        ahead = clock_offset(folders[number])
        hosts[number] = dict(_host_figures(folders[number], started + ahead, ended + ahead))
        by_index = _device_figures(folders[number], started + ahead, ended + ahead)
        try:
            indices = used_devices(config, visible.get(number))
        except ValueError:  # the devices of the ranks are not known
            continue
        devices |= {number * nproc + local_rank: by_index.get(index, {}) for local_rank, index in enumerate(indices)}
    return {**_compared(devices, rank), **_compared(hosts, node_rank)}


def _compared(figures: Mapping[int, Figures], number: int) -> dict[str, dict[str, float | None]]:
    known = figures.get(number, {})
    others = {name: [other[name] for at, other in figures.items() if at != number and name in other] for name in known}
    return {
        name: {"own": value, "others": statistics.median(others[name]) if others[name] else None}
        for name, value in known.items()
    }


def _device_figures(folder: Path, started: float, ended: float) -> dict[int, Figures]:
    """Index of an accelerator → the means of its figures."""
    values: dict[int, dict[str, list[float]]] = {}
    for name, text in monitor_logs(folder):
        if name in NODE_FIGURES or name == HOST:
            continue
        for time, block in device_blocks(text):
            if started <= time <= ended:
                for index, device in enumerate(block):
                    _add(values.setdefault(index, {}), {figure: getattr(device.possible(), figure) for figure in SHOWN})
    return {index: _means(of_device) for index, of_device in values.items()}


def _host_figures(folder: Path, started: float, ended: float) -> Iterator[tuple[str, float]]:
    values: dict[str, list[float]] = {}
    for name, text in monitor_logs(folder):
        if name == HOST:
            for time, figures in host_samples(text):
                if started <= time <= ended:
                    _add(values, figures)
        elif name in NODE_FIGURES:
            for time, numbers in node_samples(text):
                if started <= time <= ended and NODE_FIGURES[name].can_be(numbers[0]):
                    _add(values, {name: numbers[0]})
    yield from _means(values).items()


def _add(values: dict[str, list[float]], figures: Mapping[str, float | None]) -> None:
    for name, value in figures.items():
        if value is not None:
            values.setdefault(name, []).append(value)


def _means(values: Mapping[str, list[float]]) -> Figures:
    """Mean of each figure; of flags, all that were set in any sample."""
    return {
        name: float(_all_flags(known)) if FIGURES[name].flags else statistics.fmean(known)
        for name, known in values.items()
    }


def _all_flags(values: list[float]) -> int:
    flags = 0
    for value in values:
        flags |= int(value)
    return flags


FIGURES = {**NODE_FIGURES, **HOST_FIGURES, **DEVICE_FIGURES}


def figure_text(name: str, figures: Mapping[str, float | None]) -> str:
    """A figure with its unit, beside that of the others: "accelerator clock 1005 MHz (others 1410)"."""
    figure = FIGURES[name]
    value, others = (None if value is None else figure.text(value) for value in (figures["own"], figures["others"]))
    unit = f" {figure.shown}" if figure.shown else ""
    return f"{figure.title} {value}{unit}" + (f" (others {others})" if others is not None else "")
