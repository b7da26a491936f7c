"""A key as `ssh-keygen -t ed25519` makes it, also where that is not installed."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def write_key(path: Path) -> None:
    """Write a new key without a passphrase, and its public key beside it."""
    key, encoding = Ed25519PrivateKey.generate(), serialization.Encoding
    path.write_bytes(key.private_bytes(encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()))
    path.chmod(0o600)
    public = key.public_key().public_bytes(encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_name(f"{path.name}.pub").write_bytes(public + b" made by a test\n")
