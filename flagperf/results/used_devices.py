"""Which of a node's devices a job used, as the vendor's tool counts them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any


def used_devices(config: Mapping[str, Any], visible: str | None) -> tuple[int, ...]:
    """The devices of a node's ranks, as places in the tool's output. The device of local rank 0 comes first.

    A container may be given some of a host's devices, by `gpus` or by their files; a process may see some of those that
    are there (`visible`). Each counts what it was given from 0, and local rank N uses the Nth device that it sees.

    Args:
        config: the configuration of the job, as config.yaml holds it.
        visible: the value of the vendor's `visible_devices` in the ranks' environment; None: it was not set.

    Raises:
        ValueError: the devices are not named by their numbers, or are fewer than the ranks.
    """
    nproc: int = config["nproc"]
    given = _given(config) if config["runtime"]["kind"] == "docker" else None
    seen = range(nproc) if visible is None else _numbers(config["vendor"]["visible_devices"], visible)
    try:
        return tuple(seen[rank] if given is None else given[seen[rank]] for rank in range(nproc))
    except IndexError:
        raise ValueError(f"{nproc} ranks have fewer devices: {list(given or seen)}") from None


def _given(config: Mapping[str, Any]) -> list[int] | None:
    """The devices that the container is given; None: they keep the numbers of the host."""
    options = [config[source].get("container") or {} for source in ("cluster", "vendor", "runtime")]
    gpus = next((found["gpus"] for found in options if found.get("gpus")), "")
    if gpus.startswith("device="):
        return _numbers("container.gpus", gpus.removeprefix("device="))
    if gpus or any(found.get("privileged") for found in options):
        return None
    pattern = config["vendor"].get("device_files") or ""
    files = [device.partition(":")[0] for found in options for device in found.get("devices") or ()]
    numbers = {int(number[0]) for file in files if fnmatch(file, pattern) and (number := re.search(r"\d+$", file))}
    return sorted(numbers) or None


def _numbers(source: str, text: str) -> list[int]:
    """2,3 → [2, 3]"""
    names = [name.strip() for name in text.split(",")]
    if not all(name.isdecimal() for name in names):
        raise ValueError(f"{source}={text} does not name devices by their numbers")
    return [int(name) for name in names]
