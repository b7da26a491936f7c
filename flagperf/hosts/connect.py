"""Which transport leads to which node: a registry, whose modules are loaded when a node asks for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.values import JobConfig
from flagperf.errors import HostError
from flagperf.hosts.transport import Transport

log = logging.getLogger(__name__)


def make_transports(job: JobConfig, nodes: Sequence[Node]) -> list[Transport]:
    """A transport for each node."""
    return transports(nodes, job.cluster, job.deadlines.connect)


def transports(nodes: Sequence[Node], cluster: Cluster, timeout: float) -> list[Transport]:
    """The same; `timeout`: seconds for a connection."""
    by_way: dict[str, list[Node]] = {}
    for node in nodes:
        by_way.setdefault(way_to(node, cluster), []).append(node)
    made = {name: iter(WAYS[name](some, cluster, timeout)) for name, some in by_way.items()}
    return [next(made[way_to(node, cluster)]) for node in nodes]


def way_to(node: Node, cluster: Cluster) -> str:
    """The name in `WAYS` of how a node is reached."""
    return "local" if node.local else "srun" if cluster.slurm else "ssh"


def _this_machine(nodes: Sequence[Node], _cluster: Cluster, _timeout: float) -> Sequence[Transport]:
    from flagperf.hosts.local import LocalTransport

    return [LocalTransport(node.name, node.address) for node in nodes]


def _by_ssh(nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
    from flagperf.hosts.sockets import remove_dead_socket_folders
    from flagperf.hosts.ssh.connection import AT_ONCE  # asyncssh is heavy
    from flagperf.hosts.ssh.transport import SshTransport

    remove_dead_socket_folders()
    if not cluster.ssh.strict:
        log.warning("host keys are not checked: the cluster's file says ssh.strict: false")
    gate = asyncio.Semaphore(AT_ONCE)
    return [SshTransport(node, cluster.ssh, timeout, gate) for node in nodes]


def _by_srun(nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
    from flagperf.hosts.slurm.job import SlurmJob
    from flagperf.hosts.slurm.transport import SrunTransport
    from flagperf.hosts.sockets import remove_dead_socket_folders

    assert cluster.slurm is not None
    remove_dead_socket_folders()
    if cluster.slurm.job is None:
        raise HostError(nodes[0].name, "Slurm has this node back", advice="cluster.slurm.job names an allocation")
    job = SlurmJob(cluster.slurm.job, [node.name for node in nodes])
    return [SrunTransport(node, job, cluster.slurm, timeout) for node in nodes]


WAYS: Mapping[str, Callable[[Sequence[Node], Cluster, float], Sequence[Transport]]] = {
    "local": _this_machine,
    "ssh": _by_ssh,
    "srun": _by_srun,
}
