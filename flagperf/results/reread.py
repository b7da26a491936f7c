"""A recorded round held against the logs of its ranks: its figures are what they logged, whatever result.json says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.records import Change, Result, Verdict
from flagperf.results.result import digest, result_of_logs
from flagperf.results.verdict import same, worst

SHOWN = 3  # figures that a reason names
ANOTHER = "the hash of that result.json is not the recorded one"
NO_LOGS = "the logs of its ranks are not there: the figures are those of result.json"


def read_again(recorded: Result, config: Mapping[str, Any], changes: Iterable[Change], folder: Path) -> Result:
    """The round as its logs tell it; what only the launcher knew comes from its record.

    Args:
        recorded: what result.json says.
        config, changes: of the job.
        folder: of the round.
    """
    found = result_of_logs(
        config,
        changes,
        recorded.round,
        folder,
        status=recorded.status,
        failure=recorded.failure,
        seconds=recorded.seconds,
        trained=recorded.trained,
        outages=recorded.outages,
        sweep=recorded.sweep,
    )
    if recorded.values and not found.values:  # what else it says of them cannot be checked
        found = dataclasses.replace(recorded, monitors={}, built={})
        found = with_reason(found, "SUSPECT", NO_LOGS)
    elif told := list(_differences(recorded.values, found.values)):
        found = with_reason(found, "INVALID", f"result.json is not what the ranks logged: {', '.join(told[:SHOWN])}")
    if recorded.previous and recorded.previous != digest(folder.parent / f"round{recorded.round - 1}"):
        found = with_reason(found, "INVALID", f"the round before it was another one: {ANOTHER}")
    return dataclasses.replace(found, phases=recorded.phases, previous=recorded.previous, started=recorded.started)


def _differences(recorded: Mapping[str, Any], logged: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(recorded.keys() | logged.keys()):
        if not same(recorded.get(name), logged.get(name)):
            yield f"{name} is {recorded.get(name)}, they say {logged.get(name)}"


def with_reason(result: Result, verdict: Verdict, reason: str) -> Result:
    """The result with one more reason, ahead of the others, and a verdict that is at least as bad."""
    return dataclasses.replace(result, verdict=worst((result.verdict, verdict)), reasons=(reason, *result.reasons))
