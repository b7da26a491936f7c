"""How long the operator classes of a traced step take, whose kernels stay below the probed peaks.

Each call of the forward pass that can be made again is measured alone, with its backward pass, on the shapes of the
trace. So the sum of a class contains its operators in the backward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from flagperf.contract.trace import OperatorCount, Trace

CLASSES = ("matmul", "convolution", "attention", "normalisation")
LEARNED = {"native_batch_norm": 3}  # inputs with a gradient, where others have none: running statistics
CALLS = 5  # of an operator, measured together

Seconds = Callable[[Callable[[], object], int], float]  # of so many calls


def measured_classes(trace: Trace, seconds: Seconds) -> dict[str, float]:
    """Seconds of a step by operator class. Classes without a call that can be repeated are missing."""
    sums: Counter[str] = Counter()
    for operator in trace.operators:
        if operator.function and operator.phase == "forward" and operator.operator_class in CLASSES:
            call = call_of(operator)
            call()
            sums[operator.operator_class] += operator.calls * seconds(call, CALLS) / CALLS
    return dict(sums)


def call_of(operator: OperatorCount) -> Callable[[], object]:
    """A function that makes the call and its backward pass."""
    function: Any = reduce(getattr, operator.function.split("."), torch)
    learned = LEARNED.get(operator.function, len(operator.shapes))
    inputs = [torch.rand(shape, requires_grad=place < learned) for place, shape in enumerate(operator.shapes)]

    def result() -> torch.Tensor:
        made = function(*inputs, *operator.arguments)
        first: torch.Tensor = made[0] if isinstance(made, tuple) else made
        return first

    gradient = torch.ones_like(result())
    return lambda: torch.autograd.grad(result(), inputs[:learned], gradient, allow_unused=True)
