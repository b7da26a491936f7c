"""How far numbers differ from others: of tensors, of all weights of a network, of metrics."""

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
    """Largest difference of two tensors, relative to the largest number of the first; endless for other shapes."""
    if a.shape != b.shape:
        return float("inf")
    a, b = a.detach().cpu().double(), b.detach().cpu().double()
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-12)) if a.numel() else 0.0


def norm_of_difference(names: Iterable[str], a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
    """Euclidean norm of the difference of all numbers of some tensors, relative to that of the first."""
    squares = [(a[name].double().square().sum(), (a[name].double() - b[name]).square().sum()) for name in names]
    whole, differing = (float(sum(values)) for values in zip(*squares))
    return float((differing / max(whole, 1e-12)) ** 0.5)


def largest(values: Iterable[float]) -> float:
    """The largest value; endless where one is no number, 0 where there is none."""
    found = list(values)
    return float("inf") if any(value != value for value in found) else max(found, default=0.0)


def metric_difference(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Largest difference of two evaluations' metrics, relative where one is above 1; endless where one is missing."""
    return largest(abs(value - b.get(name, float("inf"))) / max(abs(value), 1.0) for name, value in a.items())
