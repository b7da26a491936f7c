"""Compares a recorded round with the logs of its ranks. The figures are those of the logs, not of result.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.records import Change, Result, Verdict
from flagperf.results.result import Ending, digest, result_of_logs
from flagperf.results.verdict import same, worst

SHOWN = 3  # a reason names so many figures
ANOTHER = "the hash of that result.json is not the recorded one"
NO_LOGS = "the logs of its ranks are not there: the figures are those of result.json"


def read_again(recorded: Result, config: Mapping[str, Any], changes: Iterable[Change], folder: Path) -> Result:
    """The result of a round from its logs. The facts that only the launcher knew come from result.json.

    Args:
        recorded: the content of result.json.
        config, changes: of the job.
        folder: of the round.
    """
    result = result_of_logs(config, changes, recorded.round, folder, Ending.of(recorded), recorded.sweep)
    if recorded.values and not result.values:  # without logs the other fields cannot be checked either
        result = dataclasses.replace(recorded, monitors={}, built={})
        result = with_reason(result, "SUSPECT", NO_LOGS)
    elif differences := list(_differences(recorded.values, result.values)):
        shown = ", ".join(differences[:SHOWN])
        result = with_reason(result, "INVALID", f"result.json is not what the ranks logged: {shown}")
    if recorded.previous and recorded.previous != digest(folder.parent / f"round{recorded.round - 1}"):
        result = with_reason(result, "INVALID", f"the round before it was another one: {ANOTHER}")
    return dataclasses.replace(result, previous=recorded.previous)


def _differences(recorded: Mapping[str, Any], logged: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(recorded.keys() | logged.keys()):
        if not same(recorded.get(name), logged.get(name)):
            yield f"{name} is {recorded.get(name)}, they say {logged.get(name)}"


def with_reason(result: Result, verdict: Verdict, reason: str) -> Result:
    """The result with a further reason in front, and a verdict that is at least as bad as `verdict`."""
    return dataclasses.replace(result, verdict=worst((result.verdict, verdict)), reasons=(reason, *result.reasons))
