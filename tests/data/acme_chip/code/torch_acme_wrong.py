"""The chip made of Python with one wrong operator: its tanh is 0.1 % too large."""

from __future__ import annotations

from typing import Any

import torch
import torch_acme  # noqa: F401  # brings the device
from torch_acme import tensor

_right = tensor.compute


def compute(operator: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator on the chip, tanh wrongly."""
    result = _right(operator, args, kwargs)
    return result * 1.001 if operator is torch.ops.aten.tanh.default else result


tensor.compute = compute
