"""The names that CPM-1 and GLM, both made from Megatron-LM, have in their published checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

LAYER = {  # Megatron's name → that of transformers' GPT-2
    "input_layernorm": "ln_1",
    "attention.query_key_value": "attn.c_attn",
    "attention.dense": "attn.c_proj",
    "post_attention_layernorm": "ln_2",
    "mlp.dense_h_to_4h": "mlp.c_fc",
    "mlp.dense_4h_to_h": "mlp.c_proj",
}


def published_layers(transformer: Mapping[str, Tensor], count: int = 2) -> dict[str, Tensor]:
    """The weights of the layers and of the last norm of a GPT-2 under Megatron's names; its matrices are turned."""
    weights = {f"transformer.final_layernorm.{kind}": transformer[f"ln_f.{kind}"] for kind in ("weight", "bias")}
    for layer in range(count):
        for theirs, name in LAYER.items():
            weight = transformer[f"h.{layer}.{name}.weight"]
            turned = weight.t().contiguous() if weight.ndim == 2 else weight
            weights[f"transformer.layers.{layer}.{theirs}.weight"] = turned
            weights[f"transformer.layers.{layer}.{theirs}.bias"] = transformer[f"h.{layer}.{name}.bias"]
    return weights
