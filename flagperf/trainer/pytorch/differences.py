"""Relative differences: of tensors, of all weights of a network, of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor


def tensors(node: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and mappings."""
    if isinstance(node, Tensor):
        yield node
    for item in node.values() if isinstance(node, Mapping) else node if isinstance(node, (list, tuple)) else ():
        yield from tensors(item)


def difference(a: Tensor, b: Tensor) -> float:
    """Largest difference of two tensors, relative to the largest number of the first; infinite for other shapes."""
    if a.shape != b.shape:
        return float("inf")
    a, b = a.detach().cpu().double(), b.detach().cpu().double()
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-12)) if a.numel() else 0.0


def norm_of_difference(names: Iterable[str], a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
    """Euclidean norm of the difference of all numbers of some tensors, relative to the norm of the first."""
    squares = [(a[name].double().square().sum(), (a[name].double() - b[name]).square().sum()) for name in names]
    reference, differing = (float(sum(values)) for values in zip(*squares))
    return float((differing / max(reference, 1e-12)) ** 0.5)


def largest(values: Iterable[float]) -> float:
    """The largest value; infinite where one is NaN, 0 without values."""
    numbers = list(values)
    return float("inf") if any(value != value for value in numbers) else max(numbers, default=0.0)


def metric_difference(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Largest difference of two evaluations' metrics, relative if the first is above 1; infinite if one is missing."""
    return largest(abs(value - b.get(name, float("inf"))) / max(abs(value), 1.0) for name, value in a.items())
