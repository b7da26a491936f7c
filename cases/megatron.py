"""Weights of GPT-2 as Megatron-LM, GLM and CPM name them, under the names of transformers."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

NAMES = {  # replaced in this order
    "transformer.block_position_embeddings": "block_position",
    "transformer.position_embeddings": "transformer.wpe",
    "position_embeddings": "transformer.wpe",
    "word_embeddings": "transformer.wte",
    "transformer.final_layernorm": "transformer.ln_f",
    "transformer.layers": "transformer.h",
    "input_layernorm": "ln_1",
    "post_attention_layernorm": "ln_2",
    "attention.query_key_value": "attn.c_attn",
    "attention.dense": "attn.c_proj",
    "mlp.dense_h_to_4h": "mlp.c_fc",
    "mlp.dense_4h_to_h": "mlp.c_proj",
}


def gpt2_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights under our names. transformers' GPT-2 keeps those of its linear layers transposed."""
    return dict(_renamed(name, weight) for name, weight in weights.items())


def _renamed(name: str, weight: Tensor) -> tuple[str, Tensor]:
    for theirs, ours in NAMES.items():
        name = name.replace(f"{theirs}.", f"{ours}.")
    return name, weight.t() if ".c_" in name and name.endswith(".weight") else weight
