"""Explains each failure of ssh in one sentence, with advice."""

from __future__ import annotations

import asyncio
import errno
import shlex
import socket
from collections.abc import Sequence

import asyncssh

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.errors import HostError, JumpError
from flagperf.hosts.ssh.host_key import USUAL_FILE, USUAL_PORT, HostKeys, describe_key, key_file
from flagperf.hosts.ssh.login import openssh_argv

# The exceptions of asyncssh.connect. Python 3.10's asyncio.TimeoutError is none of the others.
FAILURES = (OSError, asyncssh.Error, ValueError, asyncio.TimeoutError)

NO_LOGIN = (
    "is sshd there overloaded, or waiting for a name server? Or does a link lose large packets (MTU)? Try: "
    "ssh -v {0}; ping -M do -s 1400 {0}"
)
BUSY = ("sshd closed the connection before the login", "is sshd overloaded (MaxStartups)? See its log")
OS_PROBLEMS = {
    errno.ECONNREFUSED: ("the ssh port refuses connections", "start sshd there, or correct the port in {settings}"),
    errno.EHOSTUNREACH: ("the host cannot be reached (no route)", "switch it on, or correct the address in {settings}"),
    errno.ENETUNREACH: (
        "the host's network cannot be reached",
        "check this machine's routes, or correct the address in {settings}",
    ),
    errno.ETIMEDOUT: ("no answer to the connection", "is it switched on, and does a firewall drop ssh?"),
    errno.ECONNRESET: BUSY,
    errno.EPIPE: BUSY,
}


def explain(
    error: BaseException,
    route: Sequence[Node],
    ssh: Ssh,
    keys: HostKeys | None,
    *,
    jump: bool = False,
    connected: bool = False,
) -> HostError:
    """The error for a failure of asyncssh.connect.

    Args:
        route: the hosts from the first login to the failed login. All have the name of the node at the end.
        keys: the keys of the last host, where they caused the failure.
        jump: the last host is a jump host.
        connected: its port accepted the connection.
    """
    endpoint = _endpoint(route[-1])
    if keys is not None:
        problem, advice = _key_problem(keys, route, ssh)
    elif connected and isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        problem, advice = f"{endpoint} accepts the connection, and the login does not end", NO_LOGIN.format(endpoint)
    else:
        settings = "the cluster file"
        if jump:
            settings = "cluster.ssh.jump" if ssh.jump else "ProxyJump of the ssh configuration"
        problem, advice = _connection_problem(error, route, ssh, settings)
    if not jump:
        return HostError(route[-1].name, problem, advice=advice)
    return JumpError(route[-1].name, f"jump host: {problem}", endpoint, advice=advice)


def _connection_problem(error: BaseException, route: Sequence[Node], ssh: Ssh, settings: str) -> tuple[str, str]:
    """Problem and advice. `settings`: the source of the host's address, for the advice."""
    *through, host = route
    endpoint, login = _endpoint(host), _login(route, ssh)
    if isinstance(error, asyncssh.PermissionDenied):
        return (
            f"{endpoint} does not accept the login",
            f"try: {login}; set the key (cluster.ssh.key), or the user in {settings}",
        )
    if isinstance(error, asyncssh.ChannelOpenError) and through:
        jump = through[-1].address
        return f"the jump host {jump} cannot connect to {endpoint}: {error.reason}", f"try: {login}"
    if isinstance(error, asyncssh.ConnectionLost):
        return f"{endpoint} dropped the ssh connection", "is sshd overloaded (MaxStartups) or did it stop? See its log"
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return f"no answer from {endpoint}", "is it switched on, and does a firewall drop ssh?"
    if isinstance(error, socket.gaierror):
        return f"the name {endpoint} is unknown", f"correct the address in {settings}, or the name server"
    if isinstance(error, OSError):
        # one OSError without a number contains the failures of several addresses
        codes = [code for code in OS_PROBLEMS if code == error.errno or f"[Errno {code}]" in str(error)]
        if codes:
            problem, advice = OS_PROBLEMS[codes[0]]
            return f"{problem}: {endpoint}", advice.format(settings=settings)
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    return f"ssh to {endpoint} failed: {reason}", f"try: {login}"


def _key_problem(keys: HostKeys, route: Sequence[Node], ssh: Ssh) -> tuple[str, str]:
    """Problem and advice for a host whose key is unknown or has changed."""
    endpoint, files = _endpoint(route[-1]), " and ".join(keys.files) or USUAL_FILE
    shown = describe_key(keys.shown) if keys.shown else "a key that cannot be read"
    look = f"ssh-keygen -lf {key_file(keys.shown)}" if keys.shown else "ssh-keygen -lf on its key file"
    compare = f"compare the shown key with the key on the host's own console ({look})"
    if not keys.known:
        problem = f"the host key of {endpoint} is unknown: {files} has no key of this host. The host shows {shown}"
        return problem, f"{compare}; if they are equal, add the key: {_login(route, ssh)}"
    known = " and ".join(map(describe_key, keys.known))
    problem = f"the host key of {endpoint} has changed: {files} has {known}, the host shows {shown}"
    danger = "someone may intercept the connection, or the host was installed again"
    forget = "; ".join(_forget(route[-1], file) for file in keys.files)
    return problem, f"{danger}: {compare}; only if they are equal, replace the key: {forget}; {_login(route, ssh)}"


def _endpoint(host: Node) -> str:
    return f"{host.address}:{host.port}" if host.port else host.address


def _login(route: Sequence[Node], ssh: Ssh) -> str:
    """The OpenSSH command for the same login. OpenSSH asks about an unknown host, and adds its key."""
    return shlex.join([*openssh_argv(route, ssh), "true"])


def _forget(host: Node, file: str) -> str:
    """The command that removes a host's keys from a file."""
    entry = host.address if host.port in (None, USUAL_PORT) else f"[{host.address}]:{host.port}"
    return shlex.join(["ssh-keygen", "-f", file, "-R", entry])
