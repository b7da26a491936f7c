"""The comparisons of a vendor's network with the case's network, at random steps of the training."""

from __future__ import annotations

from collections.abc import Iterator

from flagperf.contract.records import Finding
from flagperf.results.evidence import Evidence

# Largest relative differences of the loss and of the gradients
IN_FP32 = (0.01, 0.1)
ROUNDED = (0.05, 0.5)  # in every other precision


def as_compared(evidence: Evidence) -> Iterator[Finding]:
    """In the closed division: loss or gradients that differ by more than rounding make the round INVALID."""
    if evidence.config.get("division") != "closed":
        return
    yield from (("INVALID", text) for text in differing(evidence))


def differing(evidence: Evidence) -> Iterator[str]:
    """A sentence for each of loss and gradients that differs by more than rounding."""
    limits = IN_FP32 if evidence.config.get("precision") == "fp32" else ROUNDED
    for name, limit in zip(("loss", "gradients"), limits, strict=True):
        difference = evidence.number(f"comparison_{name}")
        if difference is not None and not difference <= limit:
            yield (
                f"the vendor's own code does not do in the training what the case does: at a random step, "
                f"with the same weights and batch, {name} differ by {100 * difference:.3g} % (limit {100 * limit:g} %)"
            )


def compared(evidence: Evidence) -> Iterator[str]:
    """Notes: how many comparisons were made, how long they took, and in the open division what differs."""
    count, seconds = evidence.number("comparisons"), evidence.number("comparison_time") or 0.0
    extension = evidence.config.get("extension") or {}
    if count is None or not extension.get("has_code"):
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
