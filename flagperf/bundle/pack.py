"""Writes the bundle of a run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flagperf import report
from flagperf.bundle import archive
from flagperf.bundle.contents import ENVELOPE, STATEMENT, Hiding, files
from flagperf.bundle.signature import sign
from flagperf.bundle.statement import describe, statement
from flagperf.errors import ConfigError
from flagperf.run.folder import is_held


@dataclass(frozen=True)
class Packed:
    """The contents of a bundle, counted."""

    files: int
    hidden: dict[str, int]  # file → secret values that were left out of it


def pack(run: Path, target: Path, key: Ed25519PrivateKey | None = None) -> Packed:
    """Write the bundle of a run. The same run gives the same bytes.

    Raises:
        ConfigError: the run is missing or not finished, or `target` cannot be written.
    """
    run = run.resolve()
    if is_held(run):
        raise ConfigError("this run is still running", given=run, advice="wait for its end: flagperf watch shows it")
    summaries = report.read_run(run)
    _check_target(target, run)
    hiding = Hiding(summary.config for summary in summaries)
    hashes: dict[str, str] = {}
    hidden: dict[str, int] = {}
    try:
        with archive.create(target) as out:
            for name, path in files(run):
                archive.check_size(name, path.stat().st_size)
                data, count = hiding.hide(path.read_bytes())
                hashes[name] = hashlib.sha256(data).hexdigest()
                hidden |= {name: count} if count else {}
                out.add(f"{run.name}/{name}", data)
            text, _ = hiding.hide(statement(hashes, describe(run, summaries, hidden)))
            out.add(f"{run.name}/{STATEMENT}", text)
            if key is not None:
                envelope = json.dumps(sign(text, key), indent=1, sort_keys=True)
                out.add(f"{run.name}/{ENVELOPE}", f"{envelope}\n".encode())
    except OSError as error:
        problem = f"the bundle cannot be written: {error.strerror}"
        raise ConfigError(problem, given=error.filename or target) from None
    return Packed(len(hashes), hidden)


def _check_target(target: Path, run: Path) -> None:
    if target.exists() or target.is_symlink():
        raise ConfigError("this file exists already", given=target, advice="remove it, or choose another name")
    if not target.parent.is_dir():
        raise ConfigError("no such folder", given=target.parent)
    if run in target.resolve().parents:
        raise ConfigError(
            "the bundle would lie inside the run that it packs", given=target, advice="choose another folder"
        )
