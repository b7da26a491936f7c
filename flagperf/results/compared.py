"""A vendor's network in the training: what the comparisons with the case's own network at random steps say."""

from __future__ import annotations

from collections.abc import Iterator

from flagperf.contract.records import Finding
from flagperf.results.evidence import Evidence

IN_FP32 = (0.01, 0.1)  # of the loss, of the gradients: relative differences that kernels of the same numbers may have …
ROUNDED = (0.05, 0.5)  # … and of numbers that are rounded


def as_compared(evidence: Evidence) -> Iterator[Finding]:
    """A network that does something else than the case's in a step of the training."""
    if evidence.config.get("division") != "closed":
        return
    yield from (("INVALID", text) for text in differing(evidence))


def differing(evidence: Evidence) -> Iterator[str]:
    """In words, where loss or gradients differ by more than rounding."""
    most = IN_FP32 if evidence.config.get("precision") == "fp32" else ROUNDED
    for name, limit in zip(("loss", "gradients"), most, strict=True):
        found = evidence.number(f"comparison_{name}")
        if found is not None and not found <= limit:
            yield (
                f"the vendor's own code does not do in the training what the case does: at a random step, "
                f"with the same weights and batch, {name} differ by {100 * found:.3g} % (limit {100 * limit:g} %)"
            )


def compared(evidence: Evidence) -> Iterator[str]:
    """How many comparisons were made, and what they cost, for the notes."""
    count, seconds = evidence.number("comparisons"), evidence.number("comparison_time") or 0.0
    own = evidence.config.get("extension") or {}
    if count is None or not own.get("has_code"):
        return
    if not count:
        yield "the vendor's own code was not compared with the case's during the training"
        return
    largest = evidence.number("comparison_gradients") or 0.0
    times = "once" if count == 1 else f"{count:.0f} times"
    yield (
        f"the vendor's network was compared with the case's {times} during the training, in {seconds:.3g} s "
        f"outside its steps; gradients differ by {100 * largest:.2g} % at most"
    )
    if evidence.config.get("division") == "open":
        yield from differing(evidence)
