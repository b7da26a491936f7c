"""What a report says of the slow and late ranks of a job."""

from __future__ import annotations

from collections.abc import Iterable

from flagperf.contract.records import Result
from flagperf.results.slow_ranks import sentences


def slow_rank_lines(results: Iterable[Result]) -> list[str]:
    """A sentence for each slow or late rank of each round."""
    return [
        f"Round {result.round}: {text}"
        for result in results
        for text in sentences((*result.slow_ranks, *result.late_ranks))
    ]
