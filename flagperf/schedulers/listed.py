"""Hosts that a cluster's file lists: this machine, and hosts over ssh."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from typing_extensions import override

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.hosts.transport import Transport
from flagperf.schedulers.interface import Scheduler


class Listed(Scheduler):
    """The default scheduler, which uses the hosts of the cluster's file."""

    @override
    def transports(self, nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
        from flagperf.hosts.ssh.transport import over_ssh  # asyncssh is heavy

        return over_ssh(nodes, cluster.ssh, timeout)

    @override
    def contact(self, node: Node, cluster: Cluster) -> str:
        from flagperf.hosts.ssh.login import openssh_argv, route

        return f"reached by {shlex.join(openssh_argv(route(node, cluster.ssh), cluster.ssh))}"
