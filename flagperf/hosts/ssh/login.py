"""Describes a login: the hosts on the route, and the options of asyncssh or OpenSSH."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.contract.build import build
from flagperf.errors import ConfigError
from flagperf.user import user_path

if TYPE_CHECKING:
    import asyncssh

# These are added to the types of the host's known keys, which come first. Without them, a host with none of the known
# types could not show any key, and would look broken.
KEY_TYPES = "+ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"
KEEPALIVES = 3  # number of unanswered keepalives after which a connection is lost
JUMP = re.compile(r"(?:(?P<user>.+)@)?(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:@]+))(?::(?P<port>\d+))?")


def route(node: Node, ssh: Ssh) -> tuple[Node, ...]:
    """The hosts that the cluster's file names: the jump host, if any, and the node.

    Raises:
        ConfigError: the jump host is written incorrectly.
    """
    return (jump_host(node, ssh.jump, "cluster.ssh.jump"), node) if ssh.jump else (node,)


def jump_host(node: Node, jump: str, key: str) -> Node:
    """The jump host of a node; `key`: the setting that names the jump host."""
    match = JUMP.fullmatch(jump)
    if match:
        found = {"address": match["ipv6"] or match["host"], "user": match["user"]}
        found["port"] = int(match["port"]) if match["port"] else None
        with contextlib.suppress(ConfigError):  # the same forms as of a node
            return build(Node, {"name": node.name, **found}, key, lambda _: "")
    raise ConfigError(
        "the jump host cannot be understood",
        where=f"host {node.name}",
        key=key,
        given=jump,
        allowed="[user@]host[:port], where host is a name, an IPv4 address, or an IPv6 address in brackets",
    )


def connect_options(
    of_files: Mapping[str, Any], ssh: Ssh, timeout: float, tunnel: asyncssh.SSHClientConnection | None
) -> dict[str, Any]:
    """The options of asyncssh.connect. `of_files`: those that the files of ssh on this machine give."""
    return {
        **of_files,
        "connect_timeout": timeout,
        "login_timeout": timeout,
        "keepalive_interval": ssh.keepalive,
        "keepalive_count_max": KEEPALIVES,
        "server_host_key_algs": KEY_TYPES,
        "tunnel": tunnel,
    }


def openssh_argv(route: Sequence[Node], ssh: Ssh) -> list[str]:
    """The argv of OpenSSH's `ssh` for the same login."""
    *through, host = route
    argv = ["ssh"]
    if ssh.config:
        argv += ["-F", local_path(ssh.config)]
    if ssh.key:
        argv += ["-i", local_path(ssh.key)]
    if ssh.known_hosts:
        path = local_path(ssh.known_hosts)
        # OpenSSH takes a path with spaces and without quotes for several files.
        argv += ["-o", f'UserKnownHostsFile="{path}"' if " " in path else f"UserKnownHostsFile={path}"]
    if not ssh.strict:
        argv += ["-o", "StrictHostKeyChecking=no"]
    if through and ssh.jump:  # OpenSSH finds ProxyJump itself. -J would log in to the jump host without these options
        argv += ["-o", f"ProxyCommand={shlex.join([*openssh_argv(through, ssh), '-W', '[%h]:%p'])}"]
    if host.port:
        argv += ["-p", str(host.port)]
    return [*argv, f"{host.user}@{host.address}" if host.user else host.address]


def local_path(path: str) -> str:
    """A path of this machine, with ~ replaced."""
    return str(user_path(path))
