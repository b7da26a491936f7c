"""A recorded round held against the logs of its ranks: its figures are what they logged, whatever result.json says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.config.values import Change
from flagperf.results.result import result_of_logs
from flagperf.results.values import Result
from flagperf.results.verdict import same, worst

SHOWN = 3  # figures that a reason names
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
        sweep=recorded.sweep,
    )
    if recorded.values and not found.values:  # what else it says of them cannot be checked
        found = dataclasses.replace(recorded, monitors={}, built={})
        found = _with_reason(found, "SUSPECT", NO_LOGS)
    elif told := list(_differences(recorded.values, found.values)):
        found = _with_reason(found, "INVALID", f"result.json is not what the ranks logged: {', '.join(told[:SHOWN])}")
    return dataclasses.replace(found, phases=recorded.phases, outages=recorded.outages, started=recorded.started)


def _differences(recorded: Mapping[str, Any], logged: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(recorded.keys() | logged.keys()):
        if not same(recorded.get(name), logged.get(name)):
            yield f"{name} is {recorded.get(name)}, they say {logged.get(name)}"


def _with_reason(result: Result, verdict: Any, reason: str) -> Result:
    return dataclasses.replace(result, verdict=worst((result.verdict, verdict)), reasons=(reason, *result.reasons))
