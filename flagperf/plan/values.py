"""A plan: the exact commands of a round as data. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.limits import Deadlines
from flagperf.config.schema.platform import ContainerOptions
from flagperf.contract.command import Command

CONFIG = "config.yaml"  # in the folder of a round: the configuration for its ranks
ENVIRONMENT = "environment.sh"  # beside it: starts a command with the variables that may reach the ranks
SECRETS = ".secrets"  # beside it, one of each node until its ranks start: lines of shell that set variables
SOURCE = (
    # Inside a function, the script does not see the ranks' command as its own arguments. The ranks report what the
    # script adds to PYTHONPATH.
    'prepare() { . "$0"; }; export FLAGPERF_BEFORE_SCRIPT="${PYTHONPATH-}"; prepare; exec "$@"'
)
READ_SECRETS = '. "$0" && { rm -f "$0"; exec "$@"; }'  # the launcher removes a file that this line cannot remove


def launcher_log(log_dir: str, framework: str) -> str:
    """Path of the output of the ranks' launcher, on the node with this log folder."""
    return f"{log_dir}/start_{framework}_task.log"


def config_file(log_dir: PurePosixPath, own: bool) -> PurePosixPath:
    """Path of the config.yaml of a node's ranks: the round's, or one of the node's own."""
    return (log_dir if own else log_dir.parent) / CONFIG


def secrets_file(log_dir: str, rank: int) -> str:
    """Path of the file that sets a node's secret variables. Not in the log folder, which is collected."""
    return str(PurePosixPath(log_dir).parent / f"{SECRETS}-node{rank}")


def with_secrets(launch: Command, file: str) -> Command:
    """The command in a shell that first sets the secret variables, and removes their file."""
    return replace(launch, argv=("sh", "-c", READ_SECRETS, file, *launch.argv))


def with_listed(command: Command, config_file: str) -> Command:
    """The command with the variables that may reach the ranks, and no others (`flagperf.plan.environment`)."""
    return replace(command, argv=("/bin/sh", str(PurePosixPath(config_file).with_name(ENVIRONMENT)), *command.argv))


def with_script(launch: Command, script: str | None, config_file: str) -> Command:
    """The command that starts the ranks in a clean environment, after the vendor's script if it has one.

    bash sources it: `exit` in it ends the start. Neither bash nor the ranks see variables that are not listed.
    """
    start = with_listed(launch, config_file)
    if script is None:
        return start
    return with_listed(replace(start, argv=("bash", "-c", SOURCE, script, *start.argv)), config_file)


@dataclass(frozen=True)
class Mount:
    """A folder of the host in a container."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Container:
    """One container. Source of both the `docker run` line of a dry run and the executed call."""

    name: str
    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    labels: Mapping[str, str]
    mounts: tuple[Mount, ...]
    options: ContainerOptions


@dataclass(frozen=True)
class Rendezvous:
    """The meeting point of the ranks: address and port of node 0, and each node's network interface to node 0."""

    address: str
    port: int
    interfaces: tuple[str | None, ...]  # per node; None: left to the library


@dataclass(frozen=True)
class NodePlan:
    """The part of one node in one round."""

    rank: int
    node: Node
    launch: Command  # the framework's launcher of the ranks
    ranks: tuple[int, ...]  # global ranks of this node
    case_dir: str  # on the node
    log_dir: str  # on the node; rank<R>.out.log and start_<framework>_task.log lie there
    container: Container | None = None  # in which `start` runs; None: in the current environment
    script: str | None = None  # on the node; sourced before the ranks start
    monitors: tuple[str, ...] = ()  # names of the monitors that run
    wrapper: tuple[str, ...] = ()  # a command in front of them that enters a container of the site
    contained: bool = False  # whether they run in such a container, by a wrapper or by the way to the node
    secrets: tuple[str, ...] = ()  # names of secret variables; `launch` does not have them
    own_config: bool = False  # it reads a config.yaml of its own, and not the round's, which is the launcher's file

    @property
    def secrets_file(self) -> str:
        """Path, on the node, of the file that sets the secret variables."""
        return secrets_file(self.log_dir, self.rank)

    @property
    def start(self) -> Command:
        """The command that starts the ranks: `launch`, with the secret variables, after the vendor's script if any."""
        start = with_script(self.launch, self.script, self.config_file)
        if self.wrapper:  # the wrapper reads variables of its own, such as mounts
            start = with_listed(self.wrapped(start), self.config_file)
        return with_secrets(start, self.secrets_file) if self.secrets else start

    @property
    def sent_code(self) -> str | None:
        """Folder on the node for sent code. None: the node's processes import the launcher's files."""
        sent = self.container is not None or self.contained or not self.node.same_files
        return self.launch.env["PYTHONPATH"] if sent else None

    def wrapped(self, command: Command) -> Command:
        """A command in the container of the ranks."""
        return replace(command, argv=(*self.wrapper, *command.argv))

    @property
    def config_file(self) -> str:
        """Path, on the node, of the config.yaml that its ranks read."""
        return str(config_file(PurePosixPath(self.log_dir), self.own_config))

    @property
    def environment_file(self) -> str:
        """Path, on the node, of the script that starts a command with the listed variables alone."""
        return str(PurePosixPath(self.config_file).with_name(ENVIRONMENT))


@dataclass(frozen=True)
class Plan:
    """The exact commands of a round, per node, as data."""

    case: str
    framework: str
    round: int
    config: Mapping[str, Any]  # goes to every node as config.yaml
    nodes: tuple[NodePlan, ...]
    master_address: str
    master_port: int  # the configured port, else a stand-in until the round has a free port
    deadlines: Deadlines

    def launcher_log(self, node: NodePlan) -> str:
        """Path, on the node, of the output of the ranks' launcher."""
        return launcher_log(node.log_dir, self.framework)
