"""Decides whether a refused host key is unknown or has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import asyncssh

from flagperf.config.schema.cluster import Node

USUAL_PORT = 22
USUAL_FILE = "~/.ssh/known_hosts"


@dataclass(frozen=True)
class HostKeys:
    """The known keys of a host, and the key that the host has shown."""

    files: tuple[str, ...]  # the files with known keys
    known: tuple[asyncssh.SSHKey, ...]  # of this host; empty: the host is unknown
    shown: asyncssh.SSHKey | None  # None: the host shows a certificate


class KeyRecorder(asyncssh.SSHClient):
    """Records the key of an unknown host, and refuses the key."""

    def __init__(self) -> None:
        self.address = ""
        self.connected = False  # true: the port accepted the connection
        self.shown: asyncssh.SSHKey | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Record the address of the host. asyncssh calls this."""
        self.connected = True
        self.address = (conn.get_extra_info("peername") or ("",))[0]

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Record the key, and refuse it. asyncssh calls this for unknown keys."""
        self.shown = key
        return False


def host_keys(
    error: BaseException, recorder: KeyRecorder, host: Node, options: dict[str, Any], files: tuple[str, ...]
) -> HostKeys | None:
    """The keys of a host; None where a connection failed for another reason.

    Args:
        options: those of the failed asyncssh.connect.
        files: the files with the known keys in the options.
    """
    if not isinstance(error, asyncssh.HostKeyNotVerifiable):
        return None
    said = asyncssh.SSHClientConnectionOptions(host=host.address, **options)
    port = None if said.port == USUAL_PORT else said.port
    name = said.host_key_alias or said.host
    known, *_ = asyncssh.match_known_hosts(options["known_hosts"], name, recorder.address, port)
    return HostKeys(files, tuple(dict.fromkeys(known)), recorder.shown)  # a key may match by name and by address


def describe_key(key: asyncssh.SSHKey) -> str:
    """Type and fingerprint in the form of ssh-keygen: "ssh-ed25519 SHA256:uNiV…"."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def key_file(key: asyncssh.SSHKey) -> str:
    """The usual path of sshd's public key of this type."""
    words = key.get_algorithm().removeprefix("ssh-").split("-")
    return f"/etc/ssh/ssh_host_{words[0]}_key.pub"
