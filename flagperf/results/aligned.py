"""Compares the software of the ranks with the software of the alignment that a run names. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flagperf.contract.alignment import other_versions
from flagperf.contract.records import Finding
from flagperf.results.evidence import Evidence


def as_aligned(evidence: Evidence) -> Iterator[Finding]:
    """A run without a required alignment is INVALID, and so is a run on other software than its alignment's."""
    record = evidence.config.get("alignment_record")
    if record is None:
        if evidence.config.get("require_alignment"):
            yield "INVALID", "the run requires an alignment, and has none: flagperf align makes it"
        return
    for rank, built in evidence.built.items():
        versions = (built.get("software") or {}).get("versions") or {}
        if differences := list(other_versions(record["software"], versions)):
            yield "INVALID", f"rank {rank} has other software than the alignment: {'; '.join(differences)}"
            return
