"""Achieved beside achievable: one sentence a round."""

from __future__ import annotations

from collections.abc import Iterable

from flagperf.contract.records import NO_TRACE, Achievable, Result, Summary
from flagperf.report.cells import number

NAMES = {  # of operator classes, in a sentence
    "matmul": "matrix products",
    "elementwise": "element-wise operators",
    "reduction": "reductions",
    "copy": "copies",
    "embedding": "embeddings",
    "convolution": "convolutions",
    "optimizer": "the optimizer",
    "other": "other operators",
}
SHOWN = 0.1  # a class with a smaller share of the time is left out …
MOST = 3  # … and so are those after the third


def achievable_lines(summary: Summary, results: Iterable[Result]) -> list[str]:
    """The share that each round achieved of the product's limit; or the figures that are missing."""
    several = len(summary.results) > 1
    known = ((result, result.achievable) for result in results)
    return [
        (f"Round {result.round}: " if several else "") + _line(summary, result, allowed)
        for result, allowed in known
        if allowed is not None and result.values.get("p_train") is not None
    ]


def _line(summary: Summary, result: Result, allowed: Achievable) -> str:
    identity = summary.identity
    devices = f"{identity.devices} {identity.hardware}"
    achieved = f"{number(result.values['p_train'])} {identity.throughput_unit} (p_train)"
    if allowed.throughput is None or allowed.share is None:
        missing = ", ".join(allowed.missing)
        text = f"{achieved}. What {devices} allow at most is not known. Missing: {missing}."
        return f"{text}{_hint(allowed)}{_step(allowed)}"
    most = f"{number(allowed.throughput)} {identity.throughput_unit}"
    return (
        f"{achieved}, {100 * allowed.share:.0f} % of what {devices} allow: at most {most}, by {allowed.source}. "
        f"Of this least time {_classes(allowed)}."
    )


def _classes(allowed: Achievable) -> str:
    """ "41 % is element-wise operators, limited by memory bandwidth" """
    shown = [part for part in allowed.classes if part.share >= SHOWN][:MOST] or allowed.classes[:1]
    parts = [(part.share, NAMES.get(part.operator_class, part.operator_class), part.limited_by) for part in shown]
    return "; ".join(f"{100 * share:.0f} % is {name}, limited by {limit}" for share, name, limit in parts)


def _hint(allowed: Achievable) -> str:
    measured = {"peak_flops", "memory_bandwidth"} & {*allowed.missing}
    probe = " probe=run measures peaks and bandwidth." if measured else ""
    lacks_trace = NO_TRACE in allowed.missing
    traced = " flagperf predict with the words of this run traces the step for the next run." if lacks_trace else ""
    return f"{probe}{traced}"


def _step(allowed: Achievable) -> str:
    if allowed.operations is None or allowed.moved is None:
        return ""
    computed, moved = number(allowed.operations / 1e9), number(allowed.moved / 1e9)
    return f" A step of one rank computes {computed} GFLOP and moves {moved} GB."
