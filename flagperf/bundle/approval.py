"""The approval of a bundle: a second signature, by the vendor, in a file beside the bundle.

The file is a DSSE envelope around an in-toto statement (v1). The only subject of the statement is the file of the
bundle with its SHA-256, so the bundle itself does not change.
"""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flagperf import __version__
from flagperf.bundle import signature
from flagperf.bundle.keyring import Keyring, Signed, signed_by
from flagperf.bundle.statement import TYPE, statement
from flagperf.contract.digest import sha256_of
from flagperf.contract.regular import parse_json, read_bytes
from flagperf.errors import ConfigError

SUFFIX = ".approval.json"  # behind the whole name of the bundle
PREDICATE = "urn:flagperf:approval:1"


def approval_file(bundle: Path) -> Path:
    """The file with the approval of a bundle: FILE.tar.zst.approval.json."""
    return bundle.with_name(f"{bundle.name}{SUFFIX}")


def approve(bundle: Path, key: Ed25519PrivateKey) -> Path:
    """Write the approval of a bundle, and return its path. Raises ConfigError where the file exists already."""
    path = approval_file(bundle)
    text = statement({bundle.name: sha256_of(bundle)}, {"tool": f"flagperf {__version__}"}, PREDICATE)
    envelope = json.dumps(signature.sign(text, key), indent=1, sort_keys=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{envelope}\n")
    except FileExistsError:
        raise ConfigError("this bundle is approved already", given=path, advice="remove the file first") from None
    except OSError as error:
        raise ConfigError(f"the approval cannot be written: {error.strerror}", given=path) from None
    return path


def approved_by(bundle: Path, keyring: Keyring) -> Signed | None:
    """Who approved a bundle; None: nobody.

    Raises:
        ValueError: the file beside the bundle is no approval, is the approval of another bundle, or has a wrong
            signature in the name of a trusted key.
    """
    path = approval_file(bundle)
    if not path.is_file():
        return None
    envelope = read_bytes(path)
    text = signature.payload(envelope)
    try:
        record = parse_json(text)
        kind = record["_type"], record["predicateType"]
        digests = {str(subject["digest"]["sha256"]) for subject in record["subject"]}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an approval: {error}") from None
    if kind != (TYPE, PREDICATE):
        raise ValueError(f"not an approval, but {kind[1]}")
    if sha256_of(bundle) not in digests:
        raise ValueError("the approval is for another bundle")
    return signed_by(envelope, text, keyring)
