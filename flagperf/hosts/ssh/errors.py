"""What each failure of ssh means, in one sentence and with what to do about it."""

from __future__ import annotations

import asyncio
import errno
import shlex
import socket
from collections.abc import Sequence

import asyncssh

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.errors import THIS_MACHINE, ConfigError, FlagperfError, HostError
from flagperf.hosts.ssh.host_key import USUAL_FILE, USUAL_PORT, HostKeys, described, key_file
from flagperf.hosts.ssh.login import by_hand, local_path

# What asyncssh.connect raises. A setting that cannot be read is a ValueError, and so are its own KeyImportError,
# KeyEncryptionError and ConfigParseError; Python 3.10's asyncio.TimeoutError is none of the others.
FAILURES = (OSError, asyncssh.Error, ValueError, asyncio.TimeoutError)

FILES = ("key", "config", "known_hosts")  # the settings that name a file of this machine

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


def explain(error: BaseException, way: Sequence[Node], ssh: Ssh, keys: HostKeys | None = None) -> FlagperfError:
    """The error for a failure of asyncssh.

    Args:
        way: the hosts that are logged in to, one through the other; it failed at the last. All bear the name of the
            node at the end.
        keys: of that host, where it failed because of them.

    Returns:
        ConfigError where a setting cannot be used on this machine; else HostError.
    """
    name = way[-1].name
    if (refused := _refused_setting(error, ssh)) is not None:
        key, problem, advice = refused
        given = getattr(ssh, key)
        return ConfigError(problem, where=THIS_MACHINE, key=f"cluster.ssh.{key}", given=given, advice=advice)
    jump = ssh.jump is not None and len(way) == 1
    if keys is not None:
        problem, advice = _of_keys(keys, way, ssh)
    else:
        problem, advice = _told(error, way, ssh, "cluster.ssh.jump" if jump else "the cluster file")
    return HostError(name, f"jump host: {problem}" if jump else problem, advice=advice)


def _refused_setting(error: BaseException, ssh: Ssh) -> tuple[str, str, str] | None:
    """Setting, problem and advice where a failure is about a file of this machine."""
    if isinstance(error, (asyncssh.KeyImportError, asyncssh.KeyEncryptionError)):
        return "key", f"the private key cannot be used: {error}", "give a key without passphrase, or use ssh-agent"
    if isinstance(error, asyncssh.ConfigParseError):
        return "config", f"the ssh configuration cannot be used: {error}", "correct it there"
    for key in FILES:
        path = getattr(ssh, key)
        if isinstance(error, OSError) and path and error.filename == local_path(path):
            return key, f"the file cannot be read: {error.strerror}", "correct the ssh section of the cluster file"
    return None


def _told(error: BaseException, way: Sequence[Node], ssh: Ssh, settings: str) -> tuple[str, str]:
    """Problem and advice; `settings` is where the user wrote how the host is reached."""
    *through, host = way
    place, login = _place(host), _login(way, ssh)
    if isinstance(error, asyncssh.PermissionDenied):
        return (
            f"{place} does not accept the login",
            f"try: {login}; set the key (cluster.ssh.key), or the user in {settings}",
        )
    if isinstance(error, asyncssh.ChannelOpenError) and through:
        jump = through[-1].address
        return f"the jump host {jump} cannot connect to {place}: {error.reason}", f"try: {login}"
    if isinstance(error, asyncssh.ConnectionLost):
        return f"{place} dropped the ssh connection", "is sshd overloaded (MaxStartups) or did it stop? See its log"
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return f"no answer from {place}", "is it switched on, and does a firewall drop ssh?"
    if isinstance(error, socket.gaierror):
        return f"the name {place} is unknown", f"correct the address in {settings}, or the name server"
    if isinstance(error, OSError):
        # the failures of several addresses come gathered into one OSError without a number
        codes = [code for code in OS_PROBLEMS if code == error.errno or f"[Errno {code}]" in str(error)]
        if codes:
            problem, advice = OS_PROBLEMS[codes[0]]
            return f"{problem}: {place}", advice.format(settings=settings)
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    return f"ssh to {place} failed: {reason}", f"try: {login}"


def _of_keys(keys: HostKeys, way: Sequence[Node], ssh: Ssh) -> tuple[str, str]:
    """Problem and advice for a host whose key is not the known one."""
    place, files = _place(way[-1]), " and ".join(keys.files) or USUAL_FILE
    shown = described(keys.shown) if keys.shown else "a key that cannot be read"
    look = f"ssh-keygen -lf {key_file(keys.shown)}" if keys.shown else "ssh-keygen -lf on its key file"
    compare = f"compare it with what the host's own console tells ({look})"
    if not keys.known:
        problem = f"{place} was never seen: {files} has no key of it. It shows {shown}"
        return problem, f"{compare}; when they are the same, add it, then: {_login(way, ssh)}"
    known = " and ".join(map(described, keys.known))
    problem = f"the host key of {place} has changed: {files} has {known}, it shows {shown}"
    danger = "someone may be in the middle of the connection, or the host was installed anew"
    forget = "; ".join(_forget(way[-1], file) for file in keys.files)
    return problem, f"{danger}: {compare}; only when they are the same, replace it, then: {forget}; {_login(way, ssh)}"


def _place(host: Node) -> str:
    return f"{host.address}:{host.port}" if host.port else host.address


def _login(way: Sequence[Node], ssh: Ssh) -> str:
    """The command that logs in as flagperf does; OpenSSH asks about a host that was never seen, and adds its key."""
    return shlex.join([*by_hand(way, ssh), "true"])


def _forget(host: Node, file: str) -> str:
    """The command that removes a host's keys from a file."""
    entry = host.address if host.port in (None, USUAL_PORT) else f"[{host.address}]:{host.port}"
    return shlex.join(["ssh-keygen", "-f", file, "-R", entry])
