"""The key by which a host shows who it is, where it is not the known one: was it never seen, or has it changed?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from flagperf.config.schema.cluster import Node

USUAL_PORT = 22
USUAL_FILE = "~/.ssh/known_hosts"


@dataclass(frozen=True)
class HostKeys:
    """What is known of a host's keys, and what it shows."""

    files: tuple[str, ...]  # that were looked into
    known: tuple[asyncssh.SSHKey, ...]  # of this host; empty: it was never seen
    shown: asyncssh.SSHKey | None  # None: it shows a certificate


class Witness(asyncssh.SSHClient):
    """Remembers the key that a host shows, where that is not a known one. It trusts none."""

    def __init__(self) -> None:
        self.address = ""
        self.shown: asyncssh.SSHKey | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.address = (conn.get_extra_info("peername") or ("",))[0]

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        self.shown = key
        return False


def host_keys(error: BaseException, witness: Witness, host: Node, how: dict[str, Any]) -> HostKeys | None:
    """What is to be told of a host's keys; None where a connection failed for another reason.

    Args:
        how: the options of asyncssh.connect that it failed with.
    """
    if not isinstance(error, asyncssh.HostKeyNotVerifiable):
        return None
    options = asyncssh.SSHClientConnectionOptions(host=host.address, **how)
    files = _files(options.known_hosts)
    port = None if options.port == USUAL_PORT else options.port
    name = options.host_key_alias or options.host
    known, *_ = asyncssh.match_known_hosts(list(files), name, witness.address, port) if files else ((),)
    return HostKeys(files, tuple(dict.fromkeys(known)), witness.shown)  # one may be found by name and by address


def described(key: asyncssh.SSHKey) -> str:
    """Type and fingerprint, as ssh-keygen shows it: "ssh-ed25519 SHA256:uNiV…"."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def key_file(key: asyncssh.SSHKey) -> str:
    """Where sshd usually has the public part of such a key on its host."""
    words = key.get_algorithm().removeprefix("ssh-").split("-")
    return f"/etc/ssh/ssh_host_{words[0]}_key.pub"


def _files(known_hosts: Any) -> tuple[str, ...]:
    """The files that asyncssh looks into."""
    if isinstance(known_hosts, str):
        return (known_hosts,)
    usual = Path(USUAL_FILE).expanduser()
    return tuple(known_hosts or ()) or ((str(usual),) if usual.is_file() else ())
