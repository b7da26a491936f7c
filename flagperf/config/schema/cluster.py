"""The file of a cluster: its hosts, and the connections to them. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flagperf.config.schema.kubernetes import Kubernetes
from flagperf.config.schema.platform import ContainerOptions, ImageSettings
from flagperf.config.schema.schedulers import LISTED, Slurm, source_name
from flagperf.contract.fields import AbsolutePath, Address, FolderName, Operand, Port, Positive, UserName, Variable


@dataclass(frozen=True)
class Node:
    """One host of a cluster."""

    name: FolderName  # its logs lie in a folder of this name
    address: Address
    port: Port | None = None  # None: that of the ssh configuration, else 22
    user: UserName | None = None  # None: that of the ssh configuration, else the launcher's user
    data_dir: AbsolutePath | None = None  # root of the data on this host, where it differs from data_dir
    local: bool = False  # this machine itself: no ssh
    shared: bool = False  # another machine with the launcher's files at the same paths: nothing is sent or collected

    @property
    def same_files(self) -> bool:
        """Whether a path of the launcher leads to the same file there."""
        return self.local or self.shared


@dataclass(frozen=True)
class Ssh:
    """The ssh connections of a cluster. Paths may start with ~; None: the default of OpenSSH's client."""

    key: str | None = None  # private key file; None: the agent's and the usual files
    config: str | None = None  # ssh_config file; None: ~/.ssh/config
    jump: Operand | None = None  # [user@]host[:port] that all connections go through
    known_hosts: str | None = None  # file of host keys; None: ~/.ssh/known_hosts
    strict: bool = True  # false: accept any host key, which the log repeats at each run
    keepalive: Positive = 2.0  # seconds between signs of life; after three without answer the connection is lost
    reconnect: Positive = 20.0  # seconds for which a lost connection is tried again before the host counts as lost


@dataclass(frozen=True)
class RendezvousSettings:
    """The rendezvous of the ranks. Each round finds the missing values at its start."""

    address: Address | None = None  # of node 0
    interface: str | None = None  # network interface of all nodes
    port: Port | None = None


@dataclass(frozen=True)
class Secret:
    """The source of a secret on the launcher's machine: exactly one of the two."""

    variable: Variable | None = None  # of the launcher's environment
    file: str | None = None  # with the value and an optional line end; may start with ~


@dataclass(frozen=True)
class Cluster:
    """conf/cluster/<name>.yaml. The file lists hosts, or has the section of a scheduler."""

    name: str
    title: str
    nodes: tuple[Node, ...] = ()  # of a scheduler: added by flagperf.hosts.source
    slurm: Slurm | None = None
    kubernetes: Kubernetes | None = None
    scheduler: Mapping[str, Any] | None = None  # of another package: its `name`, and what it reads
    ssh: Ssh = Ssh()
    work_dir: AbsolutePath = "/var/tmp/flagperf"  # on the hosts; one folder a run below it
    rendezvous: RendezvousSettings = RendezvousSettings()
    container: ContainerOptions = field(default_factory=ContainerOptions)  # further options of this site's containers
    image: ImageSettings = field(default_factory=ImageSettings)
    price_per_hour: Positive | None = None  # of a whole node; None: the hardware's price of a device counts
    secrets: Mapping[Variable, Secret] = field(default_factory=dict)  # variables of the ranks

    @property
    def source(self) -> str:
        """Name of the scheduler; `nodes`: the file lists the hosts."""
        return source_name(vars(self))

    @property
    def is_listed(self) -> bool:
        """Whether the file lists the hosts, so that they are known before a run."""
        return self.source == LISTED

    @property
    def passes_environment_on(self) -> bool:
        """Whether ranks without a container may inherit the launcher's environment, for example through srun."""
        return self.slurm is not None or any(node.local for node in self.nodes)

    def stand_in(self, rank: int) -> Node:
        """A stand-in for an unknown node of a plan."""
        if self.is_listed:
            name = f"<host-{rank + 1}>"
            return Node(name=name, address=name)
        name = f"node{rank}"
        return Node(name=name, address=name, shared=self.slurm is not None and self.slurm.shared)
