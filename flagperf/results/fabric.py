"""The FABRIC and LINKS events of a probe → curves, and sentences about slow links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from flagperf.contract.build import build
from flagperf.contract.fabric import NODE, Curve
from flagperf.contract.perflog import Event, fits
from flagperf.contract.records import ProbedDevice
from flagperf.contract.slow_links import BOTH, LATENCY, Suspect
from flagperf.errors import ConfigError
from flagperf.results.json_record import read_json
from flagperf.results.rank_log import RankLog

UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


@dataclass(frozen=True)
class Searched:
    """The search of a probe for slow links, in one part of the cluster."""

    part: str  # NODE: between the devices of a node; NODES: between nodes
    rounds: int
    measured: int  # links, one for each direction
    links: Sequence[Mapping[str, float]]  # source and target rank, bandwidth, latency; empty where there are too many
    suspects: tuple[Suspect, ...]  # confirmed


@dataclass(frozen=True)
class _Probe:
    """What a prediction takes of a probe.json."""

    devices: tuple[ProbedDevice, ...] = ()
    curves: tuple[Mapping[str, Any], ...] = ()  # as FABRIC logs them


def curves_of(logs: Iterable[RankLog]) -> tuple[Curve, ...]:
    """The curves of a probe, of its first rank."""
    return tuple(Curve.of(event.value) for event in _of_first(logs, "FABRIC"))


def searches_of(logs: Iterable[RankLog]) -> tuple[Searched, ...]:
    """The searches of a probe."""
    return tuple(
        Searched(
            value["part"], value["rounds"], value["measured"], value["links"], tuple(map(Suspect.of, value["suspects"]))
        )
        for value in (event.value for event in _of_first(logs, "LINKS"))
    )


def read_probe(path: Path) -> tuple[tuple[ProbedDevice, ...], tuple[Curve, ...]]:
    """Devices (probe=alone) and curves (probe=fabric) of a probe.json.

    Raises:
        ConfigError: the file is no probe.json with figures.
    """
    record = read_json(path)
    found = build(_Probe, {key: record[key] for key in ("devices", "curves") if key in record}, "", lambda _: str(path))
    devices = found.devices
    logged = [{field.name: curve.get(field.name) for field in fields(Curve)} for curve in found.curves]
    rates = [figure for device in devices for figure in device.figures.values()]
    if not all(rate > 0 for rate in rates) or not all(fits(Event("FABRIC", curve)) for curve in logged):
        raise ConfigError("not the file of a probe", where=str(path), allowed="rates, sizes and times above 0")
    curves = tuple(map(Curve.of, logged))
    if not devices and not curves:
        allowed = "probe.json of flagperf run probe=alone or probe=fabric"
        raise ConfigError("the file has no figures of a probe", where=str(path), key="probe", allowed=allowed)
    return devices, curves


def _of_first(logs: Iterable[RankLog], event: str) -> Sequence[Any]:
    """The events of rank 0: all ranks log the same."""
    return next((log.all(event) for log in logs if log.rank == 0), ())


def slow_lines(searches: Sequence[Searched], hosts: Sequence[str], nproc: int) -> list[str]:
    """A sentence for each host, device or link that is slow; empty where none is.

    Args:
        hosts: of the nodes, by node rank.
        nproc: ranks of a node.
    """
    return [line for search in searches for line in _lines(search, hosts, nproc)]


def _lines(search: Searched, hosts: Sequence[str], nproc: int) -> Iterator[str]:
    """The devices of a host that are slow in the same way share a sentence."""
    groups: dict[Any, list[Suspect]] = {}
    for suspect in search.suspects:
        other = None if suspect.peer is None else suspect.peer if search.part == NODE else suspect.peer // nproc
        groups.setdefault((suspect.rank // nproc, suspect.figure, suspect.direction, other), []).append(suspect)
    for (node, figure, direction, other), group in groups.items():
        value = (max if figure == LATENCY else min)(suspect.value for suspect in group)
        measured = f"{figure} {_text(figure, value)}, the others have {_text(figure, group[0].others)}"
        devices = sorted(suspect.rank % nproc for suspect in group)
        all_devices = search.part != NODE and len(devices) == nproc
        name = f"host {hosts[node]}" if all_devices else f"{_devices(devices)} of host {hosts[node]}"
        if other is None:
            within = " within the host" if search.part == NODE else ""
            yield f"{name}: {'both directions' if direction == BOTH else direction} slow{within}: {measured}"
            continue
        peer = f"device {other % nproc}" if search.part == NODE else f"host {hosts[other]}"
        ends = f"between {name} and {peer}" if direction == BOTH else f"from {name} to {peer}"
        yield f"the link {ends} is slow: {measured}"


def _devices(numbers: Sequence[int]) -> str:
    return f"device{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _text(figure: str, value: float) -> str:
    return duration(value) if figure == LATENCY else rate(value)


def rate(value: float) -> str:
    """Bytes/s with a unit."""
    factor, unit = next((pair for pair in UNITS if value >= pair[0]), UNITS[-1])
    return f"{value / factor:.4g} {unit}"


def duration(value: float) -> str:
    """Seconds with a unit."""
    return f"{1e6 * value:.4g} us" if value < 1e-3 else f"{1e3 * value:.4g} ms"
