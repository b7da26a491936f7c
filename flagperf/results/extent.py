"""Rules about the data: is it the case's, and the same on every node?"""

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
    for what, found in compared.items():
        other = next((rank for rank in found if found[rank] != found[min(found)]), None)
        if other is not None:
            yield "SUSPECT", f"rank {other} has other data than rank {min(found)}: the {what} differ"


DATA = (_the_data_of_the_case, _the_same_data_everywhere)
