"""What the hosts of a job are, by their sys_info.log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from flagperf.report.cells import ABSENT, number
from flagperf.results.rank_log import node_folders
from flagperf.results.sys_info import read_sys_info

FEW = 3  # so many hosts of one kind are all named

Info = Mapping[str, str]


def read_hosts(job_folder: Path) -> dict[str, Info]:
    """Each node's folder → what its host is, from the first round that has these logs; nodes without are left out."""
    for round_folder in sorted(job_folder.glob("round*")):
        infos = {path.name: read_sys_info(path) for _, _, path in node_folders(round_folder)}
        if any(infos.values()):
            return {node: info for node, info in infos.items() if info}
    return {}


def host_rows(hosts: Mapping[str, Info]) -> list[dict[str, str]]:
    """A line for each kind of host."""
    kinds: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, info in hosts.items():
        kinds.setdefault(tuple(_kind(info).items()), []).append(info.get("host", node))
    return [{"host": _names(names), **dict(kind)} for kind, names in kinds.items()]


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= FEW else f"{names[0]} … {names[-1]} ({len(names)} hosts)"


def _kind(info: Info) -> dict[str, str]:
    memory, devices = info.get("memory_kib", ""), info.get("devices", "none")
    driver = re.search(r"\d+(\.\d+)+", info.get("driver", ""))
    return {
        "processor": info.get("cpu") or ABSENT,
        "cores": info.get("cores") or ABSENT,
        "memory [GiB]": number(int(memory) / 2**20, 3) if memory.isdigit() else ABSENT,
        "accelerators": str(len(devices.split()))
        if (devices := info.get("devices", "")) not in ("", "none")
        else ABSENT,
        "driver": driver[0] if driver else ABSENT,
        "system": ", ".join(filter(None, (info.get("os"), info.get("kernel")))) or ABSENT,
    }
