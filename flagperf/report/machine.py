"""The hosts of a job, by their sys_info.log, and its data, devices and software, by the logs of its ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.extent import counts_of
from flagperf.contract.records import Result, Summary
from flagperf.contract.sys_info import read_sys_info
from flagperf.report.cells import ABSENT, number
from flagperf.results.rank_log import node_folders
from flagperf.results.summary import usable

FEW = 3  # up to so many hosts of a kind are named one by one

Info = Mapping[str, str]


def read_hosts(job_folder: Path) -> dict[str, Info]:
    """Node folder → facts of its host, from the first round with a sys_info.log. Nodes without one are left out."""
    for round_folder in sorted(job_folder.glob("round*")):
        infos = {path.name: read_sys_info(path) for _, _, path in node_folders(round_folder)}
        if any(infos.values()):
            return {node: info for node, info in infos.items() if info}
    return {}


def host_rows(hosts: Mapping[str, Info], results: Sequence[Result] = ()) -> list[dict[str, str]]:
    """A row for each kind of host. The monitors of `results` know the accelerators where the host named no device."""
    kinds: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, info in hosts.items():
        kinds.setdefault(tuple(_kind(info, _watched(node, results)).items()), []).append(info.get("host", node))
    return [{"host": _names(names), **dict(kind)} for kind, names in kinds.items()]


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= FEW else f"{names[0]} … {names[-1]} ({len(names)} hosts)"


def _watched(node: str, results: Iterable[Result]) -> int:
    """The largest number of accelerators that the monitors of a node watched in a round."""
    monitors = [result.monitors.get("nodes", {}).get(node, {}) for result in results]
    return max((known.get("devices", 0) for figures in monitors for known in figures.values()), default=0)


def _kind(info: Info, watched: int) -> dict[str, str]:
    memory, devices = info.get("memory_kib", ""), info.get("devices") or "none"
    named = 0 if devices == "none" else len(devices.split())
    driver = re.search(r"\d+(\.\d+)+", info.get("driver", ""))
    return {
        "processor": info.get("cpu") or ABSENT,
        "cores": info.get("cores") or ABSENT,
        "memory [GiB]": number(int(memory) / 2**20, 3) if memory.isdigit() else ABSENT,
        "accelerators": str(named or watched or ABSENT),
        "driver": driver[0] if driver else ABSENT,
        "system": ", ".join(filter(None, (info.get("os"), info.get("kernel")))) or ABSENT,
    }


def data(summary: Summary) -> str:
    """The number of samples of the job's data, and the fingerprint of its files; "" where its ranks logged neither."""
    first = next(iter(usable(summary.results)), None)
    counts = counts_of(first.built) if first else {}
    unit = ((summary.config.get("data") or {}).get("extent") or {}).get("unit", "samples")
    words = {"train": f"{unit} to train", "eval": "to evaluate", "classes": "classes"}
    parts = [f"{counts[name]:,} {text}" for name, text in words.items() if name in counts]
    ranks = first.values.get("ranks") or () if first else ()
    files = [
        f"{r['data_files']:,} files, fingerprint {r['data_fingerprint']}" for r in ranks if r.get("data_fingerprint")
    ]
    return ", ".join([*parts, *files[:1]])


def machine(result: Result) -> str:
    """Device, hosts and versions of a round, as its ranks logged them."""
    values: Mapping[str, Any] = result.values
    hosts = dict.fromkeys(str(entry["host"]) for entry in values.get("ranks") or () if "host" in entry)
    versions = [f"{name} {version}" for name, version in (values.get("versions") or {}).items() if version]
    parts = [values.get("device_name"), ", ".join(hosts), ", ".join(versions)]
    return "; ".join(str(part) for part in parts if part)


def software(result: Result) -> str:
    """Libraries, hashes of the code, foreign modules and image of a round; "" where its ranks logged none."""
    known: Mapping[str, Any] = result.built.get("software") or {}
    image: Mapping[str, str] = known.get("image") or {}
    modules = dict.fromkeys(str(entry["module"]).partition(".")[0] for entry in known.get("modules", {}).values())
    parts = [
        ", ".join(f"{name} {version}" for name, version in known.get("versions", {}).items() if version),
        ", ".join(f"code of {name} {identity}" for name, identity in known.get("code", {}).items()),
        f"modules from elsewhere: {', '.join(modules)}" if modules else "",
        f"image {image['reference']} {image['id']}" if {"reference", "id"} <= image.keys() else "",
    ]
    return "; ".join(filter(None, parts))
