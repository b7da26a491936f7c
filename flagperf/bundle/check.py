"""Compares the files of a bundle with its statement, and the statement with its signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from flagperf.bundle import signature, statement
from flagperf.bundle.contents import ENVELOPE, STATEMENT
from flagperf.contract.digest import sha256_of
from flagperf.errors import ConfigError


@dataclass(frozen=True)
class BundleCheck:
    """The result of comparing hashes and signature of a bundle."""

    files: int  # number of files in the statement
    wrong: tuple[str, ...]  # one sentence for each file that differs from the statement
    signature: str  # a description for the user
    is_trusted: bool  # no key was given, or the key signed the statement
    hidden: int  # secret values that were left out, according to the statement


def check_bundle(folder: Path, key: Ed25519PublicKey | None) -> BundleCheck:
    """Check an unpacked bundle. Raises ConfigError where the statement is missing."""
    path = folder / STATEMENT
    if not path.is_file():
        raise ConfigError("this is no bundle of flagperf: the statement is missing", given=STATEMENT)
    text = path.read_bytes()
    hashes, hidden = statement.read(text, Path(STATEMENT))
    present = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    files = {name: path for name, path in present.items() if name not in (STATEMENT, ENVELOPE)}
    description, is_trusted = _signature(present.get(ENVELOPE), text, key)
    return BundleCheck(len(hashes), tuple(_differences(hashes, files)), description, is_trusted, hidden)


def _differences(hashes: dict[str, str], files: dict[str, Path]) -> Iterator[str]:
    for name in sorted(hashes.keys() | files.keys()):
        if name not in files:
            yield f"{name}: is missing"
        elif name not in hashes:
            yield f"{name}: is not in the statement"
        elif (digest := sha256_of(files[name])) != hashes[name]:
            yield f"{name}: sha256 is {digest[:16]}…, the statement says {hashes[name][:16]}…"


def _signature(envelope: Path | None, text: bytes, key: Ed25519PublicKey | None) -> tuple[str, bool]:
    """A description of the signature, and whether `key` made it. Without a key every signature is accepted."""
    if envelope is None:
        return ("none", True) if key is None else ("none, although a key was given", False)
    try:
        signed = envelope.read_bytes()
        names = ", ".join(signature.signers(signed)) or "nobody"
        if key is None:
            return f"by {names}; not checked: give key=FILE with the signer's public key", True
        if signature.is_signed(signed, text, key):
            return f"good, by {signature.key_id(key)}", True
        return f"not by {signature.key_id(key)}, or for another statement; the envelope names {names}", False
    except ValueError as error:
        return f"cannot be read: {error}", False
