"""A rule of the verdict: did the training learn? It reads the losses that rank 0 logged.

Each loss is a slow course plus noise. The noise is estimated from the differences between neighbouring losses, which
the slow course hardly changes: their standard deviation over √2 (von Neumann's estimate, 1941). Two means count as
different where they differ by three standard errors and by one percent.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator

from flagperf.contract.records import Finding
from flagperf.results.evidence import Evidence

LEAST_STEPS = 100  # optimizer steps; a shorter training may consist of its warm-up
LEAST_LOSSES = 8  # logged losses
FIRST = 4  # losses whose mean is the start of the course
ERRORS, SHARE = 3.0, 0.01  # standard errors, and share of the loss, by which two means must differ
LOST = 0.5  # a loss that rises again by this share of its fall diverges


def _learned(evidence: Evidence) -> Iterator[Finding]:
    losses = _losses(evidence)
    if len(losses) < LEAST_LOSSES or _steps(evidence) < LEAST_STEPS:
        return
    window = max(FIRST, len(losses) // 4)
    began, ended = statistics.fmean(losses[:FIRST]), statistics.fmean(losses[-window:])
    least = min(statistics.fmean(losses[start : start + window]) for start in range(len(losses) - window + 1))
    noise = statistics.stdev(after - before for before, after in itertools.pairwise(losses)) / math.sqrt(2)
    if _above(ended, began, noise * math.sqrt(1 / window + 1 / FIRST)):
        yield "SUSPECT", f"the loss ended above where it began: {ended:.4g}, from {began:.4g}"
    elif ended - least > LOST * (began - least) and _above(ended, least, noise * math.sqrt(2 / window)):
        yield "SUSPECT", f"the loss diverged: from {began:.4g} to {least:.4g}, and back to {ended:.4g}"


LEARNING: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (_learned,)


def _above(mean: float, reference: float, error: float) -> bool:
    """Whether a mean is above another by more than noise; `error`: the standard error of their difference."""
    return mean - reference > max(ERRORS * error, SHARE * abs(reference))


def _losses(evidence: Evidence) -> list[float]:
    events = evidence.logs[0].all("STEP_END") if evidence.logs else ()
    losses = (event.value.get("loss") for event in events)
    return [loss for loss in losses if loss is not None and math.isfinite(loss)]


def _steps(evidence: Evidence) -> float:
    """Optimizer steps of this round, without the steps before a resume."""
    return (evidence.number("global_steps") or 0) - (evidence.number("resumed_from_step") or 0)
