"""How a host is logged in to: over which hosts, and with which options of asyncssh or of OpenSSH."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.errors import ConfigError

if TYPE_CHECKING:
    import asyncssh

# Beside the types of the keys that are known of a host, which come first. Else a host that has none of them could not
# show what it has, and would look like a broken one.
KEY_TYPES = "+ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"
KEEPALIVES = 3  # unanswered signs of life until a connection counts as lost
JUMP = re.compile(r"(?:(?P<user>.+)@)?(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:@]+))(?::(?P<port>\d+))?")


def way(node: Node, ssh: Ssh) -> tuple[Node, ...]:
    """The hosts to log in to, one through the other: the jump host, where there is one, and the node.

    Raises:
        ConfigError: the jump host is not written as it should be.
    """
    if not ssh.jump:
        return (node,)
    match = JUMP.fullmatch(ssh.jump)
    if match is None or not 0 < int(match["port"] or 1) < 65536:
        raise ConfigError(
            "the jump host cannot be understood",
            where=f"host {node.name}",
            key="cluster.ssh.jump",
            given=ssh.jump,
            allowed="[user@]host[:port], where host is a name, an IPv4 address, or an IPv6 address in brackets",
        )
    port = int(match["port"]) if match["port"] else None
    return Node(node.name, match["ipv6"] or match["host"], port, match["user"]), node


def options(host: Node, ssh: Ssh, timeout: float, tunnel: asyncssh.SSHClientConnection | None) -> dict[str, Any]:
    """The options of asyncssh.connect. What is not set here, the ssh configuration may say."""
    found: dict[str, Any] = {
        "connect_timeout": timeout,
        "login_timeout": timeout,
        "keepalive_interval": ssh.keepalive,
        "keepalive_count_max": KEEPALIVES,
        "server_host_key_algs": KEY_TYPES,
    }
    if host.port:
        found["port"] = host.port
    if host.user:
        found["username"] = host.user
    if tunnel:
        found["tunnel"] = tunnel
    if ssh.key:
        found["client_keys"] = [local_path(ssh.key)]
    if ssh.config:
        found["config"] = [local_path(ssh.config)]
    if not ssh.strict:
        found["known_hosts"] = None
    elif ssh.known_hosts:
        found["known_hosts"] = local_path(ssh.known_hosts)
    return found


def by_hand(way: Sequence[Node], ssh: Ssh) -> list[str]:
    """The argv of OpenSSH's `ssh` that logs in as flagperf does."""
    *through, host = way
    argv = ["ssh"]
    if ssh.config:
        argv += ["-F", local_path(ssh.config)]
    if ssh.key:
        argv += ["-i", local_path(ssh.key)]
    if ssh.known_hosts:
        path = local_path(ssh.known_hosts)
        argv += ["-o", f'UserKnownHostsFile="{path}"' if " " in path else f"UserKnownHostsFile={path}"]  # else a list
    if not ssh.strict:
        argv += ["-o", "StrictHostKeyChecking=no"]
    if through:  # -J would log in to the jump host without these options
        argv += ["-o", f"ProxyCommand={shlex.join([*by_hand(through, ssh), '-W', '[%h]:%p'])}"]
    if host.port:
        argv += ["-p", str(host.port)]
    return [*argv, f"{host.user}@{host.address}" if host.user else host.address]


def local_path(path: str) -> str:
    return str(Path(path).expanduser())
