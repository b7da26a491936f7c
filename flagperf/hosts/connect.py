"""Makes a transport to each node: this machine, or a host of the job's scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.values import JobConfig
from flagperf.hosts.source import source
from flagperf.hosts.transport import Transport


def make_transports(job: JobConfig, nodes: Sequence[Node]) -> list[Transport]:
    """A transport for each node of a job."""
    return transports(nodes, job.cluster, job.deadlines.connect)


def transports(nodes: Sequence[Node], cluster: Cluster, timeout: float) -> list[Transport]:
    """A transport for each node. `timeout`: seconds for a connection."""
    from flagperf.hosts.local import LocalTransport

    remote_nodes = [node for node in nodes if not node.local]
    remote = iter(source(cluster.source).transports(remote_nodes, cluster, timeout) if remote_nodes else ())
    return [LocalTransport(node.name, node.address) if node.local else next(remote) for node in nodes]
