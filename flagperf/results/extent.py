"""Rules of the verdict on the data: it is the data of the case, and the same on every node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flagperf.contract.extent import NOT_THE_CASE, counts_of
from flagperf.contract.records import Finding
from flagperf.results.evidence import Evidence


def _the_data_of_the_case(evidence: Evidence) -> Iterator[Finding]:
    if evidence.other_data:
        yield "SUSPECT", NOT_THE_CASE + evidence.other_data


def _the_same_data_everywhere(evidence: Evidence) -> Iterator[Finding]:
    counts = {rank: counted for rank, built in evidence.built.items() if (counted := counts_of(built))}
    compared: dict[str, dict[int, Any]] = {"samples": counts, "files": evidence.per_rank("data_fingerprint")}
    for kind, of_ranks in compared.items():
        deviant = next((rank for rank in of_ranks if of_ranks[rank] != of_ranks[min(of_ranks)]), None)
        if deviant is not None:
            yield "SUSPECT", f"rank {deviant} has other data than rank {min(of_ranks)}: the {kind} differ"


DATA = (_the_data_of_the_case, _the_same_data_everywhere)
