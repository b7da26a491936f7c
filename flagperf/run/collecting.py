"""Brings logs and checkpoints of a round from its hosts: at its end, and later where that failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flagperf.command import Command
from flagperf.config.build import build
from flagperf.config.platform import Node, Ssh
from flagperf.errors import ConfigError, HostError
from flagperf.hosts.leftovers import kept
from flagperf.hosts.transport import Transport
from flagperf.plan.values import CONFIG
from flagperf.run.folder import PLAN
from flagperf.run.resume import CHECKPOINTS

SHORT = 60.0  # seconds, for looking at a folder or removing it


@dataclass(frozen=True)
class Place:
    """Where a node of a round keeps its files, and where they belong here."""

    node: Node
    ssh: Ssh
    connect: float  # seconds for a connection
    run_folder: str  # on the host
    log_dir: str  # on the host
    folder: Path  # the node's log folder here


async def bring(transport: Transport, log_dir: str, folder: Path) -> None:
    """Copy a node's logs, and checkpoints where there are some, from its host to the round's folder here."""
    await transport.get(log_dir, folder)
    checkpoints = f"{Path(log_dir).parent}/{CHECKPOINTS}"
    if (await transport.run(Command(("test", "-d", checkpoints)), timeout=SHORT)).exit_status == 0:
        await transport.get(checkpoints, folder.parent / CHECKPOINTS)


def places(run_folder: Path) -> list[Place]:
    """Where the nodes of all rounds of a run kept their files; this machine's own are not among them.

    Raises:
        ConfigError: there is no run in the folder, or its files cannot be read.
    """
    plans = sorted(run_folder.glob(f"*/round*/{PLAN}"))
    if not plans:
        advice = "give a folder such as result/run20260101-120000"
        raise ConfigError("no run in this folder", given=run_folder, advice=advice)
    return [place for plan in plans for place in _places(plan)]


def _places(plan: Path) -> Iterator[Place]:
    try:
        nodes: list[dict[str, Any]] = json.loads(plan.read_text(encoding="utf-8"))["nodes"]
        config = yaml.safe_load(plan.with_name(CONFIG).read_text(encoding="utf-8"))
        ssh = build(Ssh, config["cluster"].get("ssh") or {}, "cluster.ssh", lambda _: str(plan.with_name(CONFIG)))
        for one in nodes:
            node = build(Node, one["node"], "node", lambda _: str(plan))
            if not node.local:
                logs = Path(one["log_dir"])
                where = str(logs.parent.parent.parent), str(logs), plan.parent / logs.name
                yield Place(node, ssh, float(config["deadlines"]["connect"]), *where)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        problem = f"{PLAN} or {CONFIG} of this round cannot be read"
        raise ConfigError(problem, where=str(plan.parent), given=str(error) or type(error).__name__) from None


async def collect_late(place: Place, transport: Transport) -> str:
    """Bring what a host still has of a round, and remove it there; what was done, in words, or "" for nothing.

    Raises:
        HostError: it cannot be brought; it stays there.
    """
    state = await kept(transport, place.run_folder)
    if state == "nothing":
        return ""
    if state not in ("kept", "dead"):
        raise HostError(transport.host, f"{place.run_folder} is in use", advice="its run goes on, or another machine's")
    try:
        await bring(transport, place.log_dir, place.folder)
    except OSError as error:
        raise HostError(
            transport.host, f"{place.log_dir} cannot be brought: {error}", advice="it stays there"
        ) from error
    done = await transport.run(Command(("rm", "-rf", place.run_folder)), timeout=SHORT)
    if done.exit_status != 0:
        raise HostError(transport.host, f"{place.run_folder} cannot be removed: {done.stderr.strip()}")
    return f"{place.log_dir} is in {place.folder}, and removed there"
