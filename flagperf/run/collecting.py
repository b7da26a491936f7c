"""Brings logs and checkpoints of a round from its hosts: at the end of the round, or later."""

from __future__ import annotations

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
from flagperf.contract.regular import parse_json, read_text, read_yaml
from flagperf.errors import ConfigError, FlagperfError, HostError
from flagperf.hosts.connect import transports
from flagperf.hosts.findings import Row, failed_row
from flagperf.hosts.leftovers import folder_state
from flagperf.hosts.transport import Transport
from flagperf.plan.values import CONFIG
from flagperf.run.bringing import bring
from flagperf.run.folder import PLAN
from flagperf.secret import Mask, is_hidden

log = logging.getLogger(__name__)

SHORT = 60.0  # seconds for reading or removing a folder


@dataclass(frozen=True)
class LogLocation:
    """The folders of a round's node, on the host and on this machine."""

    node: Node
    cluster: Cluster
    mask: Mask  # of the run's secrets
    connect: float  # seconds for a connection
    run_folder: str  # on the host
    log_dir: str  # on the host
    folder: Path  # the node's log folder here


@dataclass(frozen=True)
class Round:
    """The hosts of a round, read from the files of the round."""

    plan: Path
    hosts: Cluster
    logs: tuple[tuple[Node, str], ...]  # each node of another machine, with its log folder there
    environment: Mapping[str, str]  # of the vendor
    connect: float  # seconds for a connection

    @property
    def files(self) -> tuple[Path, Path]:
        """The files with these values."""
        return self.plan, self.plan.with_name(CONFIG)


def rounds(run_folder: Path) -> list[Round]:
    """The rounds of a run.

    Raises:
        ConfigError: the folder has no run, or its files cannot be read.
    """
    plans = sorted(path for folder in ("round*", "round*/attempt*") for path in run_folder.glob(f"*/{folder}/{PLAN}"))
    if not plans:
        advice = "give a folder such as result/run20260101-120000"
        raise ConfigError("no run in this folder", given=run_folder, advice=advice)
    return [_round(plan) for plan in plans]


def _round(plan: Path) -> Round:
    try:
        nodes: list[dict[str, Any]] = parse_json(read_text(plan))["nodes"]
        config = read_yaml(plan.with_name(CONFIG))
        config_file = str(plan.with_name(CONFIG))
        hosts = build(Cluster, config["cluster"], "cluster", lambda _: config_file)
        logs = [(build(Node, node["node"], "node", lambda _: str(plan)), _absolute(node["log_dir"])) for node in nodes]
        remote = tuple((node, folder) for node, folder in logs if not node.same_files)
        environment = dict(config["vendor"].get("environment") or {})
        return Round(plan, hosts, remote, environment, float(config["deadlines"]["connect"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        problem = f"{PLAN} or {CONFIG} of this round cannot be read"
        raise ConfigError(problem, where=str(plan.parent), given=str(error) or type(error).__name__) from None


def _absolute(path: object) -> str:
    """A path of a host that commands get as a word. Raises ValueError for any other value."""
    if isinstance(path, str) and path.startswith("/"):
        return path
    raise ValueError(f"log_dir is no absolute path: {path}")


def locations(run_rounds: Iterable[Round]) -> list[LogLocation]:
    """The folders of the nodes of these rounds.

    Raises:
        ConfigError: a secret of the run is missing.
    """
    return [location for run_round in run_rounds for location in _locations(run_round)]


def _locations(run_round: Round) -> Iterator[LogLocation]:
    for node, log_dir in run_round.logs:
        logs = Path(log_dir)
        paths = str(logs.parent.parent.parent), log_dir, run_round.plan.parent / logs.name
        mask = _mask(run_round.hosts, run_round.environment, str(run_round.plan.with_name(CONFIG)))
        yield LogLocation(node, run_round.hosts, mask, run_round.connect, *paths)


def _mask(cluster: Cluster, environment: Mapping[str, str], where: str) -> Mask:
    """The secrets of the run, to be removed from its logs. No file has their values.

    Raises:
        ConfigError: the value of a secret is missing: the secret would stay in the logs.
    """
    values = read_secrets(cluster, lambda _: where)
    for name, value in environment.items():
        if is_hidden(value):
            if name not in os.environ:
                problem = "this variable was secret in the run: flagperf searches the logs for its value"
                advice = f"set {name} to its value of the run, and collect again"
                raise ConfigError(problem, where=where, key=f"vendor.environment.{name}", advice=advice)
            values[name] = os.environ[name]
    return Mask(values.values())


async def collect_late(location: LogLocation, transport: Transport) -> str:
    """Bring the files of a round that a host still has, and remove them there. Returns a sentence; "": no such files.

    Raises:
        HostError: the files cannot be brought. They stay on the host.
    """
    state = await folder_state(transport, location.run_folder)
    if state == "nothing":
        return ""
    if state not in ("kept", "dead"):
        raise HostError(
            transport.host, f"{location.run_folder} is in use", advice="its run goes on, or another machine's"
        )
    try:
        await bring(transport, location.log_dir, location.folder, location.mask, limited=False)
    except OSError as error:
        raise HostError(
            transport.host, f"{location.log_dir} cannot be brought: {error}", advice="it stays there"
        ) from error
    done = await transport.run(Command(("rm", "-rf", location.run_folder)), timeout=SHORT)
    if done.exit_status != 0:
        raise HostError(transport.host, f"{location.run_folder} cannot be removed: {done.stderr.strip()}")
    return f"{location.log_dir} is in {location.folder}, and removed there"


async def collect_from_hosts(locations: Sequence[LogLocation]) -> list[Row]:
    """Bring the remaining files of a round. One row for each host with such files, or with an error."""
    return [row for location in locations for row in await _from_host(location)]


async def _from_host(location: LogLocation) -> list[Row]:
    try:
        (transport,) = transports([location.node], location.cluster, location.connect)
        async with transport:
            done = await collect_late(location, transport)
    except FlagperfError as error:
        return [failed_row(location.node.name, "collect", error)]
    return [Row(location.node.name, "collect", "ok", done)] if done else []
