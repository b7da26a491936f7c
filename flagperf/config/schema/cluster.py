"""What the file of a cluster says: its hosts, and how they are reached. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flagperf.config.schema.kubernetes import Kubernetes
from flagperf.config.schema.platform import ContainerOptions, ImageSettings
from flagperf.config.schema.schedulers import LISTED, Slurm, source_name
from flagperf.contract.fields import AbsolutePath, Address, FolderName, Port, Positive, Variable


@dataclass(frozen=True)
class Node:
    """One host of a cluster."""

    name: FolderName  # its logs lie in a folder of this name
    address: Address
    port: Port | None = None  # None: what the ssh configuration says, else 22
    user: str | None = None  # None: what the ssh configuration says, else the launcher's user
    data_dir: AbsolutePath | None = None  # root of the data on this host, where it differs from data_dir
    local: bool = False  # this machine itself: no ssh
    shared: bool = False  # another machine with the launcher's files at the same paths: nothing is sent or collected

    @property
    def same_files(self) -> bool:
        """Whether a path of the launcher leads to the same file there."""
        return self.local or self.shared


@dataclass(frozen=True)
class Ssh:
    """How the hosts of a cluster are reached. Paths may start with ~; None: as OpenSSH's client would."""

    key: str | None = None  # private key file; None: the agent's and the usual files
    config: str | None = None  # ssh_config file; None: ~/.ssh/config
    jump: str | None = None  # [user@]host[:port] that all connections go through
    known_hosts: str | None = None  # file of host keys; None: ~/.ssh/known_hosts
    strict: bool = True  # false: accept any host key, which the log repeats at each run
    keepalive: Positive = 2.0  # seconds between signs of life; after three without answer the connection is lost
    reconnect: Positive = 20.0  # seconds for which a lost connection is tried again before the host counts as lost


@dataclass(frozen=True)
class RendezvousSettings:
    """Where the ranks of a cluster meet. What is None is found out when a round starts."""

    address: Address | None = None  # of node 0
    interface: str | None = None  # network interface of all nodes
    port: Port | None = None


@dataclass(frozen=True)
class Secret:
    """Where on the launcher's machine the value of a secret variable of the ranks comes from: one of the two."""

    variable: Variable | None = None  # of the launcher's environment
    file: str | None = None  # that holds it, but for a line end at its end; may start with ~


@dataclass(frozen=True)
class Cluster:
    """conf/cluster/<name>.yaml. Its hosts are listed, or a scheduler gives them, by whose name the section goes."""

    name: str
    title: str
    nodes: tuple[Node, ...] = ()  # with a scheduler: those that it gave, once it has (flagperf.hosts.source)
    slurm: Slurm | None = None
    kubernetes: Kubernetes | None = None
    scheduler: Mapping[str, Any] | None = None  # of another package: its `name`, and what it reads
    ssh: Ssh = Ssh()
    work_dir: AbsolutePath = "/var/tmp/flagperf"  # on the hosts; one folder a run below it
    rendezvous: RendezvousSettings = RendezvousSettings()
    container: ContainerOptions = field(
        default_factory=ContainerOptions
    )  # what this site's containers need beside the vendor's
    image: ImageSettings = field(default_factory=ImageSettings)
    secrets: Mapping[Variable, Secret] = field(default_factory=dict)  # variables of the ranks

    @property
    def source(self) -> str:
        """Name of the scheduler that gives the hosts; `nodes`: they are listed."""
        return source_name(vars(self))

    @property
    def is_listed(self) -> bool:
        """Whether the hosts are known before a run, and not given by a scheduler."""
        return self.source == LISTED

    @property
    def passes_environment_on(self) -> bool:
        """Whether ranks without a container may have variables of the launcher's environment, as srun passes on."""
        return self.slurm is not None or any(node.local for node in self.nodes)

    def stand_in(self, rank: int) -> Node:
        """What stands in a plan for a node that is not known."""
        if self.is_listed:
            name = f"<host-{rank + 1}>"
            return Node(name=name, address=name)
        name = f"node{rank}"
        return Node(name=name, address=name, shared=self.slurm is not None and self.slurm.shared)
