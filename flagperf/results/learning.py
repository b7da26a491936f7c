"""Did the training learn? Rules of the verdict on the losses that rank 0 logged.

The loss of a step is noise around a course. Its noise is taken from the differences between one logged loss and the
next, which a slow course hardly enters: their standard deviation over √2 (von Neumann's estimate, 1941). Two means
differ when they do by three standard errors, and by one percent.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator

from flagperf.contract.records import Finding
from flagperf.results.evidence import Evidence

LEAST_STEPS = 100  # optimizer steps; in fewer, a warm-up or a first jump is most of what there is
LEAST_LOSSES = 8  # logged losses
FIRST = 4  # of them show where it began
ERRORS, SHARE = 3.0, 0.01  # standard errors, and share of the loss, by which two means must differ
LOST = 0.5  # of what the loss had fallen by, gone again: it diverges


def _learned(evidence: Evidence) -> Iterator[Finding]:
    losses = _losses(evidence)
    if len(losses) < LEAST_LOSSES or _steps(evidence) < LEAST_STEPS:
        return
    window = max(FIRST, len(losses) // 4)
    began, ended = statistics.fmean(losses[:FIRST]), statistics.fmean(losses[-window:])
    least = min(statistics.fmean(losses[at : at + window]) for at in range(len(losses) - window + 1))
    noise = statistics.stdev(after - before for before, after in itertools.pairwise(losses)) / math.sqrt(2)
    if _above(ended, began, noise * math.sqrt(1 / window + 1 / FIRST)):
        yield "SUSPECT", f"the loss ended above where it began: {ended:.4g}, from {began:.4g}"
    elif ended - least > LOST * (began - least) and _above(ended, least, noise * math.sqrt(2 / window)):
        yield "SUSPECT", f"the loss diverged: from {began:.4g} to {least:.4g}, and back to {ended:.4g}"


LEARNING: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (_learned,)


def _above(one: float, other: float, error: float) -> bool:
    """Whether a mean is above another by more than noise; `error`: the standard error of their difference."""
    return one - other > max(ERRORS * error, SHARE * abs(other))


def _losses(evidence: Evidence) -> list[float]:
    events = evidence.logs[0].all("STEP_END") if evidence.logs else ()
    losses = (event.value.get("loss") for event in events)
    return [loss for loss in losses if loss is not None and math.isfinite(loss)]


def _steps(evidence: Evidence) -> float:
    """Optimizer steps of this round; those before a resume are not among the logged ones."""
    return (evidence.number("global_steps") or 0) - (evidence.number("resumed_from_step") or 0)
