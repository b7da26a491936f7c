"""The files of a bundle held against its statement, and the statement against its signature."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from flagperf.bundle import signature, statement
from flagperf.bundle.contents import ENVELOPE, STATEMENT
from flagperf.contract.digest import sha256_of
from flagperf.errors import ConfigError


@dataclass(frozen=True)
class Held:
    """What became of the hashes and the signature of a bundle."""

    files: int  # that the statement names
    wrong: tuple[str, ...]  # what is not as the statement says, a sentence each
    signature: str  # what is known of it
    is_trusted: bool  # no key was given, or the statement is signed with it
    hidden: int  # secret values that were left out, as the statement says


def hold(folder: Path, key: Ed25519PublicKey | None) -> Held:
    """Look at an unpacked bundle. Raises ConfigError where it has no statement."""
    path = folder / STATEMENT
    if not path.is_file():
        raise ConfigError("this is no bundle of flagperf: no statement is in it", given=STATEMENT)
    text = path.read_bytes()
    hashes, hidden = statement.read(text, Path(STATEMENT))
    there = {one.relative_to(folder).as_posix(): one for one in folder.rglob("*") if one.is_file()}
    others = {name: one for name, one in there.items() if name not in (STATEMENT, ENVELOPE)}
    said, is_trusted = _signature(there.get(ENVELOPE), text, key)
    return Held(len(hashes), tuple(_wrong(hashes, others)), said, is_trusted, hidden)


def _wrong(hashes: dict[str, str], there: dict[str, Path]) -> list[str]:
    found = []
    for name in sorted(hashes.keys() | there.keys()):
        if name not in there:
            found.append(f"{name}: is missing")
        elif name not in hashes:
            found.append(f"{name}: is not in the statement")
        elif (digest := sha256_of(there[name])) != hashes[name]:
            found.append(f"{name}: sha256 is {digest[:16]}…, the statement says {hashes[name][:16]}…")
    return found


def _signature(envelope: Path | None, text: bytes, key: Ed25519PublicKey | None) -> tuple[str, bool]:
    """What is known of the signature, and whether it is by the key, if one is given."""
    if envelope is None:
        return ("none", True) if key is None else ("none, although a key was given", False)
    try:
        data = envelope.read_bytes()
        names = ", ".join(signature.signers(data)) or "nobody"
        if key is None:
            return f"by {names}; not checked: give key=FILE with the public key of who made it", True
        if signature.is_signed(data, text, key):
            return f"good, by {signature.key_id(key)}", True
        return f"not by {signature.key_id(key)}, or of another statement; it names {names}", False
    except ValueError as error:
        return f"cannot be read: {error}", False
