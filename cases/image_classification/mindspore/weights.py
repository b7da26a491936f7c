"""Weights of torchvision's ResNet in the layout of MindSpore.

| torchvision | MindSpore |
|---|---|
| `….weight` of a convolution or of `fc`, `fc.bias` | the same |
| `bn1.weight`, `bn1.bias` | `bn1.gamma`, `bn1.beta` |
| `bn1.running_mean`, `bn1.running_var` | `bn1.moving_mean`, `bn1.moving_variance` |
| `layer1.0.downsample.1.weight` … | `layer1.0.downsample.1.gamma` … |
| `bn1.num_batches_tracked` | none |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

NAMES = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}


def from_torchvision(weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays by the names of MindSpore, from those of a state dict of torchvision."""
    normalisations = {name[: -len(".running_mean")] for name in weights if name.endswith(".running_mean")}
    renamed = {}
    for name, array in weights.items():
        cell, _, parameter = name.rpartition(".")
        if cell not in normalisations:
            renamed[name] = array
        elif parameter in NAMES:
            renamed[f"{cell}.{NAMES[parameter]}"] = array
    return renamed
