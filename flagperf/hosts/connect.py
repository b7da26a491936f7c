"""Which transport leads to which node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from flagperf.config.platform import Node, Ssh
from flagperf.config.values import RunConfig
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.transport import Transport

log = logging.getLogger(__name__)


def make_transports(run: RunConfig, nodes: Sequence[Node]) -> list[Transport]:
    """A transport for each node: this machine itself, or ssh to another one."""
    return transports(nodes, run.cluster.ssh, run.deadlines.connect)


def transports(nodes: Sequence[Node], ssh: Ssh, timeout: float) -> list[Transport]:
    """The same; `timeout`: seconds for a connection."""
    if all(node.local for node in nodes):
        return [LocalTransport(node.name, node.address) for node in nodes]
    from flagperf.hosts.ssh.connection import AT_ONCE  # asyncssh is heavy
    from flagperf.hosts.ssh.sockets import remove_dead_socket_folders
    from flagperf.hosts.ssh.transport import SshTransport

    remove_dead_socket_folders()
    if not ssh.strict:
        log.warning("host keys are not checked: the cluster's file says ssh.strict: false")
    gate = asyncio.Semaphore(AT_ONCE)
    return [
        LocalTransport(node.name, node.address) if node.local else SshTransport(node, ssh, timeout, gate)
        for node in nodes
    ]
