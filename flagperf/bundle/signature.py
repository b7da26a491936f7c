"""Signatures of statements: a DSSE envelope (Dead Simple Signing Envelope, v1) with an Ed25519 signature.

https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from flagperf.contract.regular import parse_json
from flagperf.errors import ConfigError
from flagperf.user import user_path

PAYLOAD_TYPE = "application/vnd.in-toto+json"
OPENSSH = (b"-----BEGIN OPENSSH PRIVATE KEY-----", b"ssh-")  # how OpenSSH keys begin; all others are PEM
LARGEST_KEY = 1 << 20  # bytes of a file with a key
MAKE = "ssh-keygen -t ed25519 -N '' -f FILE, or openssl genpkey -algorithm ed25519 -out FILE"


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key. Raises ConfigError where the file holds no Ed25519 key without a passphrase."""
    data = _read(path)
    load = serialization.load_ssh_private_key if data.startswith(OPENSSH) else serialization.load_pem_private_key
    key: object
    try:
        key = load(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        allowed = "an Ed25519 private key without a passphrase, as OpenSSH or OpenSSL write it"
        raise ConfigError("no key to sign with", key="key", given=path, allowed=allowed, advice=f"make a key: {MAKE}")
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key. A file with a private key gives its public half."""
    data = _read(path)
    if b"PRIVATE KEY-----" in data:
        return private_key(path).public_key()
    load = serialization.load_ssh_public_key if data.startswith(OPENSSH) else serialization.load_pem_public_key
    key: object
    try:
        key = load(data)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        allowed = "an Ed25519 public key, as OpenSSH or OpenSSL write it"
        raise ConfigError("no key to check a signature with", key="key", given=path, allowed=allowed)
    return key


def key_id(key: Ed25519PublicKey) -> str:
    """The fingerprint of a key, as `ssh-keygen -l` shows it."""
    text = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    digest = hashlib.sha256(base64.b64decode(text.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def sign(statement: bytes, key: Ed25519PrivateKey) -> dict[str, Any]:
    """Sign a statement; returns its envelope."""
    signature = {"keyid": key_id(key.public_key()), "sig": _base64(key.sign(_encoding(statement)))}
    return {"payload": _base64(statement), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}


def signers(envelope: bytes) -> list[str]:
    """The ids of the keys that an envelope names. Raises ValueError where the data is no envelope."""
    return [str(signature["keyid"]) for signature in _parts(envelope)[1]]


def payload(envelope: bytes) -> bytes:
    """The signed text in an envelope, unchecked. Raises ValueError where the data is no envelope."""
    return _parts(envelope)[0]


def is_signed(envelope: bytes, statement: bytes, key: Ed25519PublicKey) -> bool:
    """Whether an envelope holds this statement with a signature of this key. Raises ValueError for any other data."""
    text, signatures = _parts(envelope)
    return text == statement and any(_is_good(signature, statement, key) for signature in signatures)


def _is_good(signature: dict[str, Any], statement: bytes, key: Ed25519PublicKey) -> bool:
    try:
        key.verify(base64.b64decode(signature["sig"], validate=True), _encoding(statement))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _parts(envelope: bytes) -> tuple[bytes, list[dict[str, Any]]]:
    """Payload and signatures of an envelope. Raises ValueError where the data is no envelope."""
    try:
        record = parse_json(envelope)
        if record["payloadType"] != PAYLOAD_TYPE:
            raise ValueError(f"the payload has another type, {record['payloadType']}")
        signatures = [{"keyid": item.get("keyid", ""), "sig": item["sig"]} for item in record["signatures"]]
        return base64.b64decode(record["payload"], validate=True), signatures
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an envelope: {error}") from None


def _encoding(statement: bytes) -> bytes:
    """The bytes that are signed: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(statement), statement)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read(path: Path) -> bytes:
    try:
        with user_path(path).open("rb") as file:  # a pipe of the user's shell, too
            return file.read(LARGEST_KEY)
    except OSError as error:
        raise ConfigError(f"the key cannot be read: {error.strerror}", key="key", given=path) from None
