"""Judges evidence by the rules of flagperf.results and of flagperf.verify. Both verdicts must agree."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from flagperf.contract.perflog import Event
from flagperf.contract.records import Verdict
from flagperf.results import verdict as first
from flagperf.results.evidence import Evidence
from flagperf.verify import logs
from flagperf.verify.verdict_rules import verdict


def judge(evidence: Evidence) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict and its reasons by the rules of results. Raises AssertionError where verify gives another verdict."""
    verdict_, reasons = first.judge(evidence)
    assert second_verdict(evidence) == verdict_
    return verdict_, reasons


def second_verdict(evidence: Evidence) -> str:
    """The verdict by the rules of verify."""
    base = configuration(evidence)
    read = [event.value["config"] for log in evidence.logs for event in log.all("SUBMIT_INFO")]
    ranks = [
        logs.Rank(log.rank, Path("node"), tuple(as_logged(event, base) for event in log.events), log.unread)
        for log in evidence.logs
    ]
    allowed = evidence.achievable and asdict(evidence.achievable)
    stated = {
        "status": evidence.status,
        "seconds": evidence.seconds,
        "trained": evidence.trained,
        "achievable": allowed,
    }
    config = {**(read[0] if read else {}), **base}
    return verdict(logs.Round(Path("round1"), stated, config, tuple(evidence.user_limits), tuple(ranks)))[0]


def configuration(evidence: Evidence) -> dict[str, Any]:
    """A configuration that agrees with the evidence."""
    return {
        **evidence.config,
        **evidence.limits,
        "nnodes": 1,
        "nproc": evidence.world_size,
        "target": vars(evidence.target) if evidence.target else None,
        "hardware": {"memory_gib": evidence.memory_gib, **(evidence.config.get("hardware") or {})},
        **({"size": "full", "data": {"extent": vars(evidence.extent)}} if evidence.extent else {}),
    }


def as_logged(event: Event, base: dict[str, Any]) -> logs.Event:
    value = {**event.value, "config": {**event.value["config"], **base}} if "config" in event.value else event.value
    return logs.Event(event.event, value, event.time_ms / 1000)
