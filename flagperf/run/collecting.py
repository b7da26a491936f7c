"""Brings logs and checkpoints of a round from its hosts: at its end, and later where that failed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.rules.secrets import read_secrets
from flagperf.config.schema.cluster import Cluster, Node
from flagperf.contract.build import build
from flagperf.contract.command import Command
from flagperf.contract.regular import read_yaml, regular
from flagperf.errors import ConfigError, FlagperfError, HostError
from flagperf.hosts.connect import transports
from flagperf.hosts.findings import Row, failed_row
from flagperf.hosts.leftovers import folder_state
from flagperf.hosts.transport import Transport
from flagperf.plain import plain
from flagperf.plan.values import CONFIG
from flagperf.run.folder import PLAN
from flagperf.run.kept_files import by_umask, without_secrets
from flagperf.run.resume import CHECKPOINTS
from flagperf.secret import Mask, is_hidden

log = logging.getLogger(__name__)

SHOWN = 5  # names of files that were left out
SHORT = 60.0  # seconds, for looking at a folder or removing it


@dataclass(frozen=True)
class LogLocation:
    """Where a node of a round keeps its files, and where they belong here."""

    node: Node
    cluster: Cluster
    mask: Mask  # of the run's secrets
    connect: float  # seconds for a connection
    run_folder: str  # on the host
    log_dir: str  # on the host
    folder: Path  # the node's log folder here


async def bring(transport: Transport, log_dir: str, folder: Path, mask: Mask) -> None:
    """Copy a node's logs, and checkpoints where there are some, to the round's folder here, where no secret stays.

    Regular files are copied; what was left out is told. A folder that is gone has nothing to be brought.
    """
    checkpoints = Path(log_dir).parent / CHECKPOINTS, folder.parent / CHECKPOINTS
    try:
        if not transport.same_files:
            left = list(await _get(transport, log_dir, folder))
            there = Command(("test", "-d", str(checkpoints[0])))
            if (await transport.run(there, timeout=SHORT)).exit_status == 0:
                left += await _get(transport, str(checkpoints[0]), checkpoints[1])
            if left:
                names = ", ".join(shown(name) for name in left[:SHOWN]) + (" …" if len(left) > SHOWN else "")
                log.warning("%s: links, pipes and devices among the logs were left out: %s", transport.host, names)
    finally:  # of a host that is lost, there is what was copied before
        await asyncio.to_thread(without_secrets, folder, mask)
        await asyncio.to_thread(by_umask, folder, checkpoints[1])


@dataclass(frozen=True)
class Round:
    """What the files of a round say of its hosts."""

    plan: Path
    hosts: Cluster
    logs: tuple[tuple[Node, str], ...]  # each node with its log folder there; this machine's own are not among them
    environment: Mapping[str, str]  # of the vendor
    connect: float  # seconds for a connection

    @property
    def files(self) -> tuple[Path, Path]:
        """The files that say so."""
        return self.plan, self.plan.with_name(CONFIG)


async def _get(transport: Transport, source: str, target: Path) -> Sequence[str]:
    try:
        return await transport.get(source, target)
    except FileNotFoundError:
        log.warning("%s: %s is not there any more; nothing of it is brought", transport.host, source)
        return ()


def shown(name: str) -> str:
    """A name of a file, which may be no text, as text."""
    return plain(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def rounds(run_folder: Path) -> list[Round]:
    """The rounds of a run.

    Raises:
        ConfigError: there is no run in the folder, or its files cannot be read.
    """
    plans = sorted(run_folder.glob(f"*/round*/{PLAN}"))
    if not plans:
        advice = "give a folder such as result/run20260101-120000"
        raise ConfigError("no run in this folder", given=run_folder, advice=advice)
    return [_round(plan) for plan in plans]


def _round(plan: Path) -> Round:
    try:
        nodes: list[dict[str, Any]] = json.loads(regular(plan).read_text(encoding="utf-8"))["nodes"]
        config = read_yaml(plan.with_name(CONFIG))
        where = str(plan.with_name(CONFIG))
        hosts = build(Cluster, config["cluster"], "cluster", lambda _: where)
        logs = [(build(Node, one["node"], "node", lambda _: str(plan)), str(one["log_dir"])) for one in nodes]
        others = tuple((node, folder) for node, folder in logs if not node.same_files)
        environment = dict(config["vendor"].get("environment") or {})
        return Round(plan, hosts, others, environment, float(config["deadlines"]["connect"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        problem = f"{PLAN} or {CONFIG} of this round cannot be read"
        raise ConfigError(problem, where=str(plan.parent), given=str(error) or type(error).__name__) from None


def locations(found: Iterable[Round]) -> list[LogLocation]:
    """Where the nodes of these rounds kept their files.

    Raises:
        ConfigError: a secret of the run is not told again.
    """
    return [location for one in found for location in _locations(one)]


def _locations(one: Round) -> Iterator[LogLocation]:
    for node, log_dir in one.logs:
        logs = Path(log_dir)
        paths = str(logs.parent.parent.parent), log_dir, one.plan.parent / logs.name
        mask = _mask(one.hosts, one.environment, str(one.plan.with_name(CONFIG)))
        yield LogLocation(node, one.hosts, mask, one.connect, *paths)


def _mask(cluster: Cluster, environment: Mapping[str, str], where: str) -> Mask:
    """What to look for in logs: the secrets of the run, whose values no file has.

    Raises:
        ConfigError: one of them is not told again: it would stay in the logs.
    """
    values = read_secrets(cluster, lambda _: where)
    for name, value in environment.items():
        if is_hidden(value):
            if name not in os.environ:
                problem = "this variable was secret in the run, and is looked for in its logs"
                advice = f"set {name} to the value that it had, and collect again"
                raise ConfigError(problem, where=where, key=f"vendor.environment.{name}", advice=advice)
            values[name] = os.environ[name]
    return Mask(values.values())


async def collect_late(location: LogLocation, transport: Transport) -> str:
    """Bring what a host still has of a round, and remove it there; what was done, in words, or "" for nothing.

    Raises:
        HostError: it cannot be brought; it stays there.
    """
    state = await folder_state(transport, location.run_folder)
    if state == "nothing":
        return ""
    if state not in ("kept", "dead"):
        raise HostError(
            transport.host, f"{location.run_folder} is in use", advice="its run goes on, or another machine's"
        )
    try:
        await bring(transport, location.log_dir, location.folder, location.mask)
    except OSError as error:
        raise HostError(
            transport.host, f"{location.log_dir} cannot be brought: {error}", advice="it stays there"
        ) from error
    done = await transport.run(Command(("rm", "-rf", location.run_folder)), timeout=SHORT)
    if done.exit_status != 0:
        raise HostError(transport.host, f"{location.run_folder} cannot be removed: {done.stderr.strip()}")
    return f"{location.log_dir} is in {location.folder}, and removed there"


async def collect_from_hosts(locations: Sequence[LogLocation]) -> list[Row]:
    """Bring what is left of a round; a row for each host that had some, or could not be asked."""
    return [row for location in locations for row in await _from_host(location)]


async def _from_host(location: LogLocation) -> list[Row]:
    try:
        (transport,) = transports([location.node], location.cluster, location.connect)
        async with transport:
            done = await collect_late(location, transport)
    except FlagperfError as error:
        return [failed_row(location.node.name, "collect", error)]
    return [Row(location.node.name, "collect", "ok", done)] if done else []
