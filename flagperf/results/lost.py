"""What an earlier summary of a job knows, and the files of its folder do not tell any longer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.contract.records import Result, Summary
from flagperf.results.reread import NO_LOGS
from flagperf.results.round_monitors import NO_LOG


def lost(before: Summary, now: Summary) -> list[str]:
    """The figures that only `before` has, as "round1: nvidia of node0_noderank0 (there is no log of it)"."""
    later = {result.round: result for result in now.results}
    return [
        f"round{result.round}: {figures}"
        for result in before.results
        if (again := later.get(result.round)) is not None
        for figures in _lost(result, again)
    ]


def _lost(before: Result, now: Result) -> Iterator[str]:
    if NO_LOGS in now.reasons and NO_LOGS not in before.reasons:
        yield "the figures of its ranks (their logs are not there)"
        return
    nodes = _monitors(now)
    for node, monitors in _monitors(before).items():
        for name, figures in monitors.items():
            again = nodes.get(node, {}).get(name, NO_LOG)
            if "not_available" in again and "not_available" not in figures:
                yield f"{name} of {node} ({again['not_available']})"


def _monitors(result: Result) -> dict[str, Mapping[str, Any]]:
    """Node → its monitors. A record of a foreign folder may hold anything."""
    nodes = result.monitors.get("nodes")
    return {node: _mappings(monitors) for node, monitors in _mappings(nodes).items()}


def _mappings(value: object) -> dict[str, Mapping[str, Any]]:
    """The entries of a mapping that are mappings."""
    pairs = value.items() if isinstance(value, Mapping) else ()
    return {str(key): entry for key, entry in pairs if isinstance(entry, Mapping)}
