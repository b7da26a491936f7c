"""The record of an alignment: `flagperf align` writes the record, and a run with `require_alignment=true` needs it.

The record lies beside the curves and the log of each training: it must follow from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.contract.digest import sha256_of
from flagperf.contract.golden import Check, Curve, read
from flagperf.contract.identity import Identity
from flagperf.contract.perflog import Event, parse
from flagperf.contract.regular import read_text

RECORD = "align.json"  # in the run folder of `flagperf align`
CURVES = "golden.yaml"  # beside the record: a copy of the curves
FOLDER = "alignment"  # of a job, with a copy of the record that its run names
NOT_COMPARED = ("flagperf",)  # the code of the case has its own rules


@dataclass(frozen=True)
class AlignmentRecord:
    """The result of all curves of a case on a device."""

    case: str
    revision: int
    framework: str
    vendor: str
    hardware: str
    precision: str
    device: str  # name that the device reports
    inside: bool  # whether each number of each curve lies inside its band
    curves: Mapping[str, str]  # name of a curve → verdict
    golden: str  # SHA-256 of the file of the curves
    software: Mapping[str, str]  # package → version, of the ranks


def log_of(folder: Path, curve: str) -> Path:
    """The log of the training for a curve, beside the record."""
    return folder / f"{curve}.log"


def files_of(folder: Path, curves: Sequence[str]) -> list[Path]:
    """The files of a record."""
    return [folder / RECORD, folder / CURVES, *(log_of(folder, curve) for curve in curves)]


def recomputed(folder: Path) -> AlignmentRecord:
    """The record that follows from the curves and the logs in a folder.

    Raises:
        ConfigError, OSError: a file is missing, or holds something else.
        LookupError: a log lacks an event.
    """
    curves = read(folder / CURVES)
    logs = {golden.name: _events(log_of(folder, golden.name)) for golden in curves}
    config = _last(logs[curves[-1].name], "SUBMIT_INFO")["config"]
    built = _last(logs[curves[-1].name], "BUILT")
    identity = Identity.of(config)
    checks = [Check(golden, identity.precision, Curve.of(logs[golden.name])) for golden in curves]
    return AlignmentRecord(
        case=identity.case,
        revision=identity.revision,
        framework=identity.framework,
        vendor=identity.vendor,
        hardware=identity.hardware,
        precision=identity.precision,
        device=built["device_name"],
        inside=all(check.inside for check in checks),
        curves={check.golden.name: check.verdict for check in checks},
        golden=sha256_of(folder / CURVES),
        software={name: version for name, version in built["software"]["versions"].items() if version is not None},
    )


def _events(log: Path) -> list[Event]:
    lines = read_text(log, errors="replace").split("\n")
    return [event for line in lines if (event := parse(line)) is not None]


def _last(events: Sequence[Event], name: str) -> Mapping[str, Any]:
    values = [event.value for event in events if event.event == name]
    if not values:
        raise LookupError(f"the log has no {name}")
    return values[-1]


def other_versions(aligned: Mapping[str, str], versions: Mapping[str, str | None]) -> Iterator[str]:
    """Packages whose version differs from the version of the alignment, in words."""
    for name in sorted(aligned.keys() & versions.keys()):
        if name not in NOT_COMPARED and versions[name] != aligned[name]:
            yield f"{name} {versions[name]}, the alignment has {aligned[name]}"


def command(case: str, vendor: str, hardware: str) -> str:
    """The command that makes the alignment of a case on a product."""
    return f"flagperf align model={case} vendor={vendor} hardware={hardware}"
