"""Checks before the start on a host: too many ranks, no disk space, missing data."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from flagperf.config.parts.data_layout import check_layout, expected
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.fields import size_in_bytes
from flagperf.contract.sample_data import is_sample_folder
from flagperf.contract.splits import check_disjoint
from flagperf.errors import ConfigError, HostError
from flagperf.hosts.facts import Facts
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport

ROOM_KIB = 64 * 1024  # least disk space for logs
ROOM_INODES = 256  # least number of files that the disk can still hold
RANK_KIB = 640 * 1024  # measured peak of a tiny case's rank, without the libraries that all ranks share
RANKS_PER_CORE = 8  # of a CPU; a few more ranks than cores are slow, but run
ONE_HOST = "remove one of them from the cluster's file"
ONE_FOLDER = "name a folder that each host has for itself; or set shared: true if they have this machine's files"
LOOK_TIMEOUT = 60.0  # seconds, for finding a few files in a data folder

COUNT = script(__file__, "count_data.sh")


def shared_cores(job: JobConfig, facts: Facts) -> str | None:
    """A warning where ranks have fewer cores than their number; None: enough cores."""
    cores = facts.number("cores")
    if job.vendor.device == "cpu" and cores is not None and job.nproc > cores:
        return f"{job.nproc} ranks share {cores} cores"
    return None


class Double(NamedTuple):
    """A node that is the host of an earlier node, or would write into its folder."""

    name: str
    earlier: str
    one_host: bool


def doubles(hosts: Iterable[tuple[Node, Facts]]) -> Iterator[Double]:
    """The nodes that are no hosts of their own. Nodes that the cluster's file calls this machine may be one host."""
    systems: dict[str, Node] = {}
    folders: dict[str, Node] = {}
    for node, facts in hosts:
        earlier = systems.setdefault(facts.system or node.name, node)
        if earlier is not node and not (earlier.local and node.local):
            yield Double(node.name, earlier.name, one_host=True)
        elif not node.same_files and (earlier := folders.setdefault(facts.folder or node.name, node)) is not node:
            yield Double(node.name, earlier.name, one_host=False)


def check_apart(job: JobConfig, hosts: Iterable[tuple[Node, Facts]]) -> None:
    """Refuse two nodes on one host, and nodes that would write into each other's folder."""
    for double in doubles(hosts):
        where = f"hosts {double.earlier} and {double.name}"
        if double.one_host:
            raise ConfigError("two nodes are one host", where=where, key="cluster.nodes", advice=ONE_HOST)
        key, given = "cluster.work_dir", job.cluster.work_dir
        raise ConfigError("two nodes have one work_dir", where=where, key=key, given=given, advice=ONE_FOLDER)


def check_devices(job: JobConfig, host: str, facts: Facts) -> None:
    """Refuse more ranks than a host has accelerators, or than the vendor's variable names on this machine."""
    counted, name = job.vendor.device_files is not None, job.vendor.visible_devices or ""
    if counted and facts.devices == 0:
        problem = f"has no device of {job.vendor.title} ({job.vendor.device_files})"
        raise HostError(host, problem, advice="install the vendor's driver, or choose another vendor or cluster")
    devices, advice = facts.devices if counted else job.nproc, None
    visible = os.environ.get(name)
    if visible is not None and job.runtime.kind == "process" and all(node.local for node in job.cluster.nodes):
        named = list(itertools.takewhile(_is_device, map(str.strip, visible.split(","))))
        if len(named) < devices:
            advice = f"{name}={visible} names {len(named)}" + (f" of {devices} devices" if counted else " devices")
        devices = min(devices, len(named))
    if devices < job.nproc:
        allowed = f"1 to {devices}" if devices else "none"
        problem, where = "more ranks than devices", f"host {host}"
        raise ConfigError(problem, where=where, key="nproc", given=job.nproc, allowed=allowed, advice=advice)


def _is_device(name: str) -> bool:
    """Whether an entry of a vendor's variable names a device. No entry counts after one that names none."""
    return name not in ("", "-1", "NoDevFiles")  # the last one is Slurm's, for a job without devices


def check_ranks(job: JobConfig, host: str, facts: Facts) -> None:
    """Refuse more ranks than a host's cores and memory allow, unless `oversubscribe` is true.

    The estimate for a rank is low: it omits data, activations and loader processes.
    """
    cores, available = facts.number("cores"), facts.number("memory_available_kib")
    fits = {}
    if job.vendor.device == "cpu" and cores is not None:
        fits[f"{RANKS_PER_CORE} on each of {cores} cores"] = RANKS_PER_CORE * cores
    if available is not None:
        if job.container is not None and job.container.memory is not None:
            available = min(available, size_in_bytes(job.container.memory) // 1024)
        needed = rank_kib(job)
        reason_memory = f"each with {needed / 1024**2:.2g} of the {available / 1024**2:.3g} GiB that are available"
        fits[reason_memory] = available // needed
    reason, most = min(fits.items(), key=lambda fit: fit[1], default=("", job.nproc))
    if job.nproc > most and not job.oversubscribe:
        raise ConfigError(
            "more ranks than the host can hold",
            where=f"host {host}",
            key="nproc",
            given=job.nproc,
            allowed=f"at most {most}, {reason}",
            advice="choose a smaller nproc, or oversubscribe=true if you want more ranks",
        )


def rank_kib(job: JobConfig) -> int:
    """Least host memory of a rank, in KiB. On a CPU with weights, gradients and two moments of the optimizer."""
    stated = job.config.get("fingerprint")
    if job.vendor.device != "cpu" or not stated:
        return RANK_KIB
    return RANK_KIB + 4 * 4 * int(stated["network"]["parameters"]) // 1024


def check_room(host: str, folder: str, facts: Facts) -> None:
    """Refuse a disk without space for logs."""
    free = facts.number("disk_free_kib")
    if free is not None and free < ROOM_KIB:
        problem = f"{free // 1024} MiB are free in {folder}, logs need {ROOM_KIB // 1024} MiB"
        raise HostError(host, problem, advice="free some space, or choose another result_dir or work_dir")
    inodes = facts.number("inodes_free")
    if inodes is not None and inodes < ROOM_INODES:
        problem = f"{inodes} inodes are free on the disk of {folder}, logs need {ROOM_INODES}"
        raise HostError(host, problem, advice="remove files there, or choose another result_dir or work_dir")


async def check_data(job: JobConfig, transport: Transport, data_dir: str | None) -> None:
    """Refuse a data_dir that is missing or has another layout. The training makes sample data itself.

    On this machine also refuses equal training and evaluation data; on other hosts the ranks do.
    """
    if data_dir is None or is_sample_folder(job.config):
        return
    if transport.local:
        check_layout(job.data, Path(data_dir))
        if not job.config.get("synthetic"):
            check_disjoint(job.config, data_dir)
    else:
        await _check_remote_layout(job.data, transport, data_dir)


async def _check_remote_layout(data: Mapping[str, Any], transport: Transport, data_dir: str) -> None:
    """`check_layout` on another host."""
    required = data.get("require", {})
    patterns = [PurePosixPath(pattern) for pattern in required]
    arguments = [
        argument
        for pattern, least in zip(patterns, required.values(), strict=True)
        for argument in (str(pattern).replace("\\", "\\\\"), str(len(pattern.parts)), str(least))
    ]
    done = await transport.run(shell(COUNT, data_dir, *arguments), timeout=LOOK_TIMEOUT)
    problem = f"data_dir {done.stdout.strip()}" if done.exit_status else None
    for (pattern, least), count in zip(required.items(), done.stdout.split(), strict=False):
        if problem is None and int(count) < least:
            problem = f"data_dir has {count} of at least {least} entries that match {pattern}"
    if problem is not None:
        host, advice = f"host {transport.host}", done.stderr.strip() or None
        raise ConfigError(problem, where=host, key="data_dir", given=data_dir, allowed=expected(data), advice=advice)
