"""diffusers' FLUX.1 with the initial weights of MLPerf's reference (torchtitan, experiments/flux/model)."""

from __future__ import annotations

from abc import ABC
from typing import Any

from diffusers import FluxTransformer2DModel
from diffusers.models.transformers.transformer_flux import FluxSingleTransformerBlock, FluxTransformerBlock
from torch import nn

ATTENTION = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj")
IN_DOUBLE, IN_SINGLE = 3, 7  # layers of equal width that are one layer in the reference: q, k, v; and four of the MLP


class Block(ABC):  # noqa: B024 (a name for two classes of a library)
    """Either kind of the network's blocks: settings such as `checkpoint_modules` name one class."""


Block.register(FluxTransformerBlock)
Block.register(FluxSingleTransformerBlock)


def flux(**arguments: Any) -> FluxTransformer2DModel:
    """The network, with zeros in the layers that shift and scale, and in the output.

    Args:
        arguments: of diffusers' FluxTransformer2DModel.
    """
    network = FluxTransformer2DModel(**arguments)
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear):
            _initialise(name, layer)
    return network


def _initialise(name: str, layer: nn.Linear) -> None:
    nn.init.zeros_(layer.bias)
    if "norm" in name or name == "proj_out":
        nn.init.zeros_(layer.weight)
    elif name.startswith("time_text_embed."):
        nn.init.normal_(layer.weight, std=0.02)
    else:
        bound = (6 / (layer.in_features + _outputs(name, layer))) ** 0.5  # Xavier's, uniform
        nn.init.uniform_(layer.weight, -bound, bound)


def _outputs(name: str, layer: nn.Linear) -> int:
    """The outputs of the reference's layer, which may hold several of diffusers' layers."""
    kind = name.rpartition(".")[2]
    if kind not in (*ATTENTION, "proj_mlp"):
        return layer.out_features
    return layer.in_features * (IN_SINGLE if name.startswith("single_") else IN_DOUBLE)
