"""Weights of torchvision's ResNet in the layout of Keras.

| torchvision | Keras |
|---|---|
| `layer1.0.conv1.weight` [out, in, height, width] | `layer1-0-conv1/kernel` [height, width, in, out] |
| `fc.weight` [out, in] | `fc/kernel` [in, out] |
| `fc.bias` | `fc/bias` |
| `bn1.weight`, `bn1.bias` | `bn1/gamma`, `bn1/beta` |
| `bn1.running_mean`, `bn1.running_var` | `bn1/moving_mean`, `bn1/moving_variance` |
| `bn1.num_batches_tracked` | none |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

NAMES = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "moving_mean",
    "running_var": "moving_variance",
}


def from_torchvision(weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays by the paths of Keras, from those of a state dict of torchvision."""
    renamed = {}
    for name, array in weights.items():
        layer, _, parameter = name.rpartition(".")
        layer = layer.replace(".", "-")
        if parameter == "weight" and array.ndim == 4:
            renamed[f"{layer}/kernel"] = array.transpose(2, 3, 1, 0)
        elif parameter == "weight" and array.ndim == 2:
            renamed[f"{layer}/kernel"] = array.T
        elif layer == "fc":
            renamed[f"{layer}/bias"] = array
        elif parameter in NAMES:
            renamed[f"{layer}/{NAMES[parameter]}"] = array
    return renamed
