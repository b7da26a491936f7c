"""What each failure of ssh means, in one sentence and with what to do about it."""

from __future__ import annotations

import asyncio
import errno
import socket

import asyncssh

from flagperf.errors import HostError
from flagperf.schema import Node, Ssh

OS_PROBLEMS = {
    errno.ECONNREFUSED: (
        "the ssh port refuses connections",
        "start sshd there, or correct the port in the cluster file",
    ),
    errno.EHOSTUNREACH: ("the host cannot be reached (no route)", "is it switched on, and is its address right?"),
    errno.ENETUNREACH: ("the host's network cannot be reached", "check the address and this machine's routes"),
    errno.ETIMEDOUT: ("no answer to the connection", "is it switched on, and does a firewall drop ssh?"),
    errno.ECONNRESET: ("sshd closed the connection before the login", "is sshd overloaded (MaxStartups)? See its log"),
    errno.EPIPE: ("sshd closed the connection before the login", "is sshd overloaded (MaxStartups)? See its log"),
}


def explain(error: BaseException, node: Node, ssh: Ssh) -> HostError:
    """The HostError for a failure of asyncssh while talking to `node`."""
    place = f"{node.address}:{node.port}" if node.port else node.address
    by_hand = f"ssh {f'-i {ssh.key} ' if ssh.key else ''}{f'-p {node.port} ' if node.port else ''}" + (
        f"{node.user}@{node.address}" if node.user else node.address
    )
    problem, advice = _told(error, place, by_hand, ssh)
    return HostError(node.name, problem, advice=advice)


def _told(error: BaseException, place: str, by_hand: str, ssh: Ssh) -> tuple[str, str]:
    known = ssh.known_hosts or "~/.ssh/known_hosts"
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return (
            f"the host key of {place} is not the one in {known}, or not in it at all",
            f"make sure that it is the right host, then: ssh-keygen -R {place}; {by_hand} true",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        return f"{place} does not accept the login", f"try: {by_hand} true; set the key or the user in the cluster file"
    if isinstance(error, (asyncssh.KeyImportError, asyncssh.KeyEncryptionError)):
        return f"the private key {ssh.key} cannot be read: {error}", "give a key without passphrase, or use ssh-agent"
    if isinstance(error, asyncssh.ConfigParseError):
        return f"the ssh configuration cannot be used: {error}", f"correct {ssh.config or '~/.ssh/config'}"
    if isinstance(error, asyncssh.ChannelOpenError):
        return f"sshd opens no further session: {error.reason}", "raise MaxSessions of sshd, or free its resources"
    if isinstance(error, asyncssh.ConnectionLost):
        return f"{place} dropped the ssh connection", "is sshd overloaded (MaxStartups) or did it stop? See its log"
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return f"no answer from {place}", "is it switched on, and does a firewall drop ssh?"
    if isinstance(error, socket.gaierror):
        return f"the name {place} is unknown", "correct the address in the cluster file, or the name server"
    if isinstance(error, FileNotFoundError):
        return f"no such file: {error.filename}", "correct the ssh section of the cluster file"
    if isinstance(error, OSError):
        # the failures of several addresses come gathered into one OSError without a number
        codes = [code for code in OS_PROBLEMS if code == error.errno or f"[Errno {code}]" in str(error)]
        if codes:
            problem, advice = OS_PROBLEMS[codes[0]]
            return f"{problem}: {place}", advice
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    return f"ssh to {place} failed: {reason}", f"try: {by_hand} true"
