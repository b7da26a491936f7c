"""A bundle → its rows for the site, or the reason why the site refuses it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flagperf import report
from flagperf.bundle.approval import approved_by
from flagperf.bundle.archive import unpack
from flagperf.bundle.check import check_bundle
from flagperf.bundle.contents import ENVELOPE, STATEMENT
from flagperf.bundle.keyring import Keyring, Signed, signed_by
from flagperf.contract.digest import sha256_of
from flagperf.errors import ConfigError
from flagperf.run import command_file
from flagperf.site.entries import Entry, entry_of
from flagperf.verify import check, objections

ID = 12  # hexadecimal digits of the SHA-256 in names


@dataclass(frozen=True)
class Bundle:
    """A verified bundle."""

    id: str
    path: Path
    size: int  # bytes
    sha256: str
    run: str
    command: str  # "": an older run kept none
    signature: Signed | None  # None: not signed
    approval: Signed | None  # None: not approved
    agreeing: int  # figures that the logs confirm
    unknown: int  # figures that cannot be computed from logs
    hidden: int  # secret values that were left out
    entries: tuple[Entry, ...]

    @property
    def file(self) -> str:
        """The name of its copy on the site."""
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.run).strip("-.")[:60] or "run"
        return f"{name}-{self.id}.tar.zst"


@dataclass(frozen=True)
class Refusal:
    """A file that the site does not show."""

    path: Path
    reasons: tuple[str, ...]


def read_bundle(path: Path, folder: Path, keyring: Keyring) -> Bundle | Refusal:
    """Verify a bundle, and read its jobs. A file that flagperf does not write may raise any exception.

    Args:
        folder: an empty one, for its files.
    """
    run = unpack(path, folder)
    bundle, rows = check_bundle(run, None), check(run)
    if wrong := (*bundle.wrong, *objections(rows)):
        return Refusal(path, wrong)
    try:
        signed, approval = _signature(run, keyring), approved_by(path, keyring)
    except ValueError as error:
        return Refusal(path, (str(error),))
    digest, count = sha256_of(path), Counter(row.answer for row in rows)
    bundle_id = digest[:ID]
    return Bundle(
        id=bundle_id,
        path=path,
        size=path.stat().st_size,
        sha256=digest,
        run=run.name,
        command=_command(run),
        signature=signed,
        approval=approval,
        agreeing=count["agrees"],
        unknown=count["not recomputed"],
        hidden=bundle.hidden,
        entries=tuple(_entries(run, bundle_id)),
    )


def _entries(run: Path, bundle_id: str) -> Iterator[Entry]:
    for number, summary in enumerate(report.read_run(run), 1):
        yield entry_of(summary, f"{bundle_id}-{number}", bundle_id)


def _command(run: Path) -> str:
    with suppress(ConfigError):
        return command_file.read(run).line()
    return ""


def _signature(run: Path, keyring: Keyring) -> Signed | None:
    envelope = run / ENVELOPE
    return signed_by(envelope.read_bytes(), (run / STATEMENT).read_bytes(), keyring) if envelope.is_file() else None
