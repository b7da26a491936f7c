"""The properties that two jobs must have in common before their figures are compared, and the other differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flagperf.config.rules.extension import KEY as EXTENSION
from flagperf.contract.extent import counts_of
from flagperf.contract.leaves import leaves
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError
from flagperf.report import cells
from flagperf.results.summary import usable

Difference = tuple[str, str, str]  # key, value of the base, value of the other
MUST = {  # property that two jobs must have in common → reason
    "case": "they train different things",
    "revision": "the case was changed between them",
    "size": "a reduced case says nothing of the full case",
    "data": "they trained on different data",
    "division": "an open run may have changed anything",
    "precision": "a narrower format is less work",
}
NAMED = ("vendor", "hardware", "framework", "runtime", "nnodes", "nproc")  # keys that may differ, as mutable keys may
NOT_SET = ("version of ", "code of ", "proof of ", "device")  # prefixes of the rows of `differences` without a setting


def check_alike(base: Summary, other: Summary, names: tuple[str, str], across: Collection[str]) -> None:
    """Raise an error where two jobs must not be compared.

    Args:
        names: of base and other, for the message.
        across: keys of MUST in which the jobs may differ.

    Raises:
        ConfigError: with the key in which the jobs differ.
    """
    left, right = _identity(base), _identity(other)
    for key in MUST:
        if left[key] != right[key] and key not in across:
            raise ConfigError(
                f"these jobs do not compare: {MUST[key]}",
                where=names[1],
                key=key,
                given=right[key],
                allowed=f"{left[key]}, as in {names[0]}",
                advice=f"give jobs with the same {key}, or across={key} to compare them all the same",
            )


def _identity(summary: Summary) -> dict[str, str]:
    identity = {"data": _data(summary), **vars(summary.identity)}
    return {key: str(identity[key]) for key in MUST}


def _data(summary: Summary) -> str:
    """The data of a job: kind, counts and, where known, the fingerprint of the files."""
    first = next(iter(usable(summary.results)), None)
    if first is None:
        return "not known"
    kind = "synthetic" if first.synthetic else "sample data" if first.sample_data else first.other_data or "the case's"
    counts = [f"{count} {name}" for name, count in sorted(counts_of(first.built).items())]
    marks = sorted({str(mark) for rank in first.values.get("ranks") or () if (mark := rank.get("data_fingerprint"))})
    return ", ".join([kind, *counts, *(f"fingerprint {mark}" for mark in marks[:1])])


def differences(base: Summary, other: Summary) -> tuple[Difference, ...]:
    """The differences between two jobs: platform, scale, mutable keys, a vendor's own code, versions."""
    left, right = _settings(base), _settings(other)
    rows = ((key, left.get(key, "–"), right.get(key, "–")) for key in dict.fromkeys([*left, *right]))
    return tuple(row for row in rows if row[1] != row[2])


def _settings(summary: Summary) -> dict[str, str]:
    return dict([*_platform(summary), *_mutable(summary), *_extension(summary.config), *_software(summary)])


def _platform(summary: Summary) -> Iterator[tuple[str, str]]:
    known = {**vars(summary.identity), "runtime": (summary.config.get("runtime") or {}).get("kind")}
    for name in NAMED:
        yield name, str(known[name])


def _mutable(summary: Summary) -> Iterator[tuple[str, str]]:
    """The values of the mutable keys. Of the vendor's keys only changed values, without its own code."""
    flat = leaves(summary.config)
    mutable = tuple(summary.config.get("mutable", ()))
    for key, value in flat.items():
        if key.startswith(mutable) and not key.startswith("vendor.") and key not in NAMED:
            yield key, json.dumps(value, ensure_ascii=False)
    for change in summary.changes:
        of_vendor = change.key.startswith("vendor.") and not change.key.startswith(EXTENSION)
        if of_vendor or not change.key.startswith((*mutable, EXTENSION)):
            yield change.key, json.dumps(change.after, ensure_ascii=False)


def _extension(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts that a vendor's own code replaces, its proof, and its hash."""
    if extension := config.get("extension"):
        for part, class_path in extension["replaced"].items():
            yield f"{EXTENSION}.{part}", class_path
        if extension["has_code"]:
            differences = extension["proof"]["differences"].values() if extension["proof"] else ()
            proof_text = f"differences up to {cells.number(max(differences), 2)}" if differences else "none"
            yield "proof of the extension", proof_text
        yield "code of the extension", hashlib.sha256(json.dumps(extension["files"]).encode()).hexdigest()[:16]


def _software(summary: Summary) -> Iterator[tuple[str, str]]:
    first = next(iter(usable(summary.results)), None)
    known: Mapping[str, Any] = (first.built.get("software") or {}) if first else {}
    for name, version in known.get("versions", {}).items():
        yield f"version of {name}", str(version)
    for name, identity in known.get("code", {}).items():
        yield f"code of {name}", str(identity)
    if first:
        yield "device", str(first.values.get("device_name"))
