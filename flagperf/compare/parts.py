"""Which part of the time to train changed between two jobs."""

from __future__ import annotations

import statistics

from flagperf.contract.records import Summary
from flagperf.report.cells import number
from flagperf.results.summary import usable


def parts_line(base: Summary, other: Summary) -> str:
    """A sentence on the parts of the time to train, the largest change first; "" where a job does not know them."""
    before, after = _parts(base), _parts(other)
    if not before or not after:
        return ""
    totals = sum(before.values()), sum(after.values())
    changes = {part: after.get(part, 0.0) - before.get(part, 0.0) for part in {**before, **after}}
    present = [part for part in changes if before.get(part) or after.get(part)]
    order = sorted(present, key=lambda part: -abs(changes[part]))
    texts = [f"{part} {number(before.get(part, 0.0), 3)} → {number(after.get(part, 0.0), 3)}" for part in order]
    shown = ", ".join(f"{text} ({_signed(changes[part])})" for part, text in zip(order, texts, strict=True))
    return f"Time to train [s], {number(totals[0])} → {number(totals[1])} ({_signed(totals[1] - totals[0])}): {shown}."


def _parts(job: Summary) -> dict[str, float]:
    """Part → mean of its seconds over the rounds that count."""
    rounds = [result.cost["seconds"] for result in usable(job.results) if result.cost]
    parts = dict.fromkeys(part for seconds in rounds for part in seconds)
    return {part: statistics.fmean(seconds.get(part, 0.0) for seconds in rounds) for part in parts}


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{number(abs(seconds), 3)}"
