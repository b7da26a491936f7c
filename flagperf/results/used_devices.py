"""The devices of a node that a job used, by their numbers in the vendor's tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any


def used_devices(config: Mapping[str, Any], visible: str | None) -> tuple[int, ...]:
    """The devices of a node's ranks, as indices in the tool's output. The device of local rank 0 comes first.

    A container gets some or all devices of its host, by `gpus` or by device files. A process sees some or all of the
    container's devices (`visible`). Both count their devices from 0. Local rank N uses the Nth device that it sees.

    Args:
        config: the configuration of the job, as config.yaml holds it.
        visible: the value of the vendor's `visible_devices` in the ranks' environment; None: it was not set.

    Raises:
        ValueError: the devices are not named by their numbers, or are fewer than the ranks.
    """
    nproc: int = config["nproc"]
    of_container = _devices_of_container(config) if config["runtime"]["kind"] == "docker" else None
    numbers = range(nproc) if visible is None else _numbers(config["vendor"]["visible_devices"], visible)
    try:
        used = [numbers[rank] for rank in range(nproc)]
        return tuple(used if of_container is None else (of_container[number] for number in used))
    except IndexError:
        raise ValueError(f"{nproc} ranks have fewer devices: {list(of_container or numbers)}") from None


def _devices_of_container(config: Mapping[str, Any]) -> list[int] | None:
    """The host's numbers of the container's devices; None: the container has the numbers of the host."""
    options = [config[source].get("container") or {} for source in ("cluster", "vendor", "runtime")]
    gpus = next((container["gpus"] for container in options if container.get("gpus")), "")
    if gpus.startswith("device="):
        return _numbers("container.gpus", gpus.removeprefix("device="))
    if gpus or any(container.get("privileged") for container in options):
        return None
    pattern = config["vendor"].get("device_files") or ""
    files = [device.partition(":")[0] for container in options for device in container.get("devices") or ()]
    numbers = {int(number[0]) for file in files if fnmatch(file, pattern) and (number := re.search(r"\d+$", file))}
    return sorted(numbers) or None


def _numbers(source: str, text: str) -> list[int]:
    """2,3 → [2, 3]"""
    names = [name.strip() for name in text.split(",")]
    if not all(name.isdecimal() for name in names):
        raise ValueError(f"{source}={text} does not name devices by their numbers")
    return [int(name) for name in names]
