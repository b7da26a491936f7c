"""The keys that a reader trusts, with the names of their owners: OpenSSH's file of allowed signers.

Each line is `NAME ssh-ed25519 AAAA…`, as in `ssh-keygen -Y`. The name of a vendor is that of conf/vendor/.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from flagperf.bundle import signature
from flagperf.errors import ConfigError
from flagperf.user import user_path


@dataclass(frozen=True)
class TrustedKey:
    """A public key and its owner."""

    owner: str
    key: Ed25519PublicKey


Keyring = Mapping[str, TrustedKey]  # id of a key → the key


@dataclass(frozen=True)
class Signed:
    """Who signed a text."""

    key: str  # its id; several ids with commas between them
    owners: tuple[str, ...] = ()  # none: no key of the reader made a signature, so none is checked


def read_keyring(path: Path) -> Keyring:
    """Read a file of allowed signers. Raises ConfigError for a line without an Ed25519 key."""
    try:
        lines = user_path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError("the file of keys cannot be read", key="keys", given=path, advice=str(error)) from None
    keys = (_trusted_key(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if _has_key(line))
    return {signature.key_id(trusted.key): trusted for trusted in keys}


def signed_by(envelope: bytes, text: bytes, keyring: Keyring) -> Signed:
    """Who signed the text in an envelope. Each signature of a trusted key is checked.

    Raises:
        ValueError: the data is no envelope, holds another text, or has a wrong signature in the name of a trusted key.
    """
    if signature.payload(envelope) != text:
        raise ValueError("the signature is for another statement")
    names = signature.signers(envelope)
    if not names:
        raise ValueError("the envelope has no signature")
    known = [name for name in dict.fromkeys(names) if name in keyring]
    for name in known:
        if not signature.is_signed(envelope, text, keyring[name].key):
            raise ValueError(f"the signature is not by {name}, although it says so")
    return Signed(", ".join(known or names), tuple(keyring[name].owner for name in known))


def _has_key(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _trusted_key(line: str, where: str) -> TrustedKey:
    owner, _, rest = line.strip().partition(" ")
    key: object = None
    with suppress(ValueError, UnsupportedAlgorithm):
        key = serialization.load_ssh_public_key(rest.strip().encode())
    if not isinstance(key, Ed25519PublicKey):
        allowed = "NAME ssh-ed25519 AAAA…, as in OpenSSH's file of allowed signers"
        raise ConfigError("no key in this line", where=where, key="keys", given=line.strip()[:60], allowed=allowed)
    return TrustedKey(owner, key)
