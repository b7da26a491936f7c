"""What is refused before anything starts on a host: too few devices, no room, data that is not there."""

from __future__ import annotations

import logging
import os
import shlex
from pathlib import Path

from flagperf.data_layout import check_layout, is_sample
from flagperf.errors import ConfigError, HostError
from flagperf.facts import Facts
from flagperf.schema import Command, RunConfig
from flagperf.transport import Transport

ROOM_KIB = 64 * 1024  # that logs need at least
LOOK_TIMEOUT = 60.0  # seconds, for finding a few files in a data folder

log = logging.getLogger(__name__)


def check_devices(run: RunConfig, host: str, facts: Facts) -> None:
    """Refuse more ranks than a host has accelerators; warn of more than it has cores where they compute on those."""
    cores = facts.number("cores")
    if run.vendor.device == "cpu" and cores is not None and run.nproc > cores:
        log.warning("%s: %d ranks share %d cores", host, run.nproc, cores)
    if run.vendor.device_files is None:
        return
    devices = facts.devices
    visible = os.environ.get(run.vendor.visible_devices or "")
    if visible and run.runtime["kind"] == "process" and all(node.local for node in run.cluster.nodes):
        devices = min(devices, len(visible.split(",")))
    if devices == 0:
        problem = f"has no device of {run.vendor.title} ({run.vendor.device_files})"
        raise HostError(host, problem, advice="install the vendor's driver, or choose another vendor or cluster")
    if devices < run.nproc:
        raise ConfigError(
            "more ranks than devices", where=f"host {host}", key="nproc", given=run.nproc, allowed=f"1 to {devices}"
        )


def check_room(host: str, folder: str, facts: Facts) -> None:
    """Refuse a disk without room for logs."""
    free = facts.number("disk_free_kib")
    if free is not None and free < ROOM_KIB:
        problem = f"{free // 1024} MiB are free in {folder}, logs need {ROOM_KIB // 1024} MiB"
        raise HostError(host, problem, advice="free some space, or choose another result_dir or work_dir")


async def check_data(run: RunConfig, transport: Transport, data_dir: str | None) -> None:
    """Refuse a data_dir that is missing or has another layout. Sample data is made by the training itself."""
    data = run.config.get("data") or {}
    if data_dir is None or is_sample(run.config):
        return
    if transport.local:
        check_layout(data, Path(data_dir))
        return
    for pattern, least in (data.get("require") or {"": 1}).items():
        place = shlex.quote(data_dir)
        look = f"find -L {place} -path {place}/{shlex.quote(pattern)} 2>/dev/null | head -n {least} | wc -l"
        found = await transport.run(Command(("sh", "-c", look)), timeout=LOOK_TIMEOUT)
        if int(found.stdout or 0) < least:
            raise ConfigError(
                f"data_dir has {found.stdout.strip() or 0} of at least {least} entries that match {pattern}",
                where=f"host {transport.host}",
                key="data_dir",
                given=data_dir,
                allowed=data.get("tree"),
            )
