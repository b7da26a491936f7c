"""Who signed an envelope, by the keys that a reader trusts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from signing_key import write_key

from flagperf.bundle.keyring import Keyring, Signed, read_keyring, signed_by
from flagperf.bundle.signature import key_id, private_key, public_key, sign

TEXT = b'{"_type": "statement"}'
NAMES = ("lab", "vendor", "stranger")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key for each name."""
    path = tmp_path_factory.mktemp("keys")
    for name in NAMES:
        write_key(path / name)
    return path


@pytest.fixture(scope="module")
def keyring(folder: Path) -> Keyring:
    """The keys of lab and vendor."""
    lines = [f"{name} {folder.joinpath(f'{name}.pub').read_text()}" for name in NAMES[:2]]
    folder.joinpath("keyring").write_text("".join(lines))
    return read_keyring(folder / "keyring")


def envelope(folder: Path, *names: str, forged: str = "") -> bytes:
    """Signatures of the names; that of `forged` is made with the key of a stranger."""
    signed = [sign(TEXT, private_key(folder / ("stranger" if name == forged else name))) for name in names]
    for made, name in zip(signed, names, strict=True):
        made["signatures"][0]["keyid"] = key_id(public_key(folder / f"{name}.pub"))
    return json.dumps({**signed[0], "signatures": [each["signatures"][0] for each in signed]}).encode()


@pytest.mark.parametrize(
    ("names", "owners"),
    [
        (["stranger"], []),
        (["lab"], ["lab"]),
        (["stranger", "vendor"], ["vendor"]),
        (["lab", "vendor"], ["lab", "vendor"]),
    ],
)
def test_every_trusted_signature_counts(folder: Path, keyring: Keyring, names: list[str], owners: list[str]) -> None:
    keys = ", ".join(key_id(public_key(folder / f"{name}.pub")) for name in owners or names)
    assert signed_by(envelope(folder, *names), TEXT, keyring) == Signed(keys, tuple(owners))


@pytest.mark.parametrize("names", [["vendor"], ["lab", "vendor"], ["vendor", "lab"]])
def test_a_forged_signature_is_refused_at_each_place(folder: Path, keyring: Keyring, names: list[str]) -> None:
    vendor = key_id(public_key(folder / "vendor.pub"))
    with pytest.raises(ValueError, match="the signature is not by") as caught:
        signed_by(envelope(folder, *names, forged="vendor"), TEXT, keyring)
    assert vendor in str(caught.value)
