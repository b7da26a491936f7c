"""Weights under the names of transformers' BERT, which MLPerf's checkpoint has too, for the network of Paddle.

    theirs                                                      ours
    bert.embeddings.word_embeddings.weight                      words.weight
    bert.embeddings.position_embeddings.weight                  places.weight
    bert.embeddings.token_type_embeddings.weight                segments.weight
    bert.embeddings.LayerNorm                                   embedding_norm
    bert.encoder.layer.<n>.attention.self.query, key, value     encoder.layers.<n>.self_attn.q_proj, k_proj, v_proj
    bert.encoder.layer.<n>.attention.output.dense, LayerNorm    encoder.layers.<n>.self_attn.out_proj, norm1
    bert.encoder.layer.<n>.intermediate.dense                   encoder.layers.<n>.linear1
    bert.encoder.layer.<n>.output.dense, LayerNorm              encoder.layers.<n>.linear2, norm2
    bert.pooler.dense                                           pooler
    cls.predictions.transform.dense, LayerNorm                  transform, transform_norm
    cls.predictions.bias                                        words_bias
    cls.seq_relationship                                        follows

A linear layer of Paddle keeps its weight as [inputs, outputs], PyTorch's as [outputs, inputs]: it is transposed.
The scores of the words use the rows of the embedding; cls.predictions.decoder holds the same once more and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

DECODER = "cls.predictions.decoder."
NAMES = (
    (r"bert\.embeddings\.word_embeddings", "words"),
    (r"bert\.embeddings\.position_embeddings", "places"),
    (r"bert\.embeddings\.token_type_embeddings", "segments"),
    (r"bert\.embeddings\.LayerNorm", "embedding_norm"),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.self\.query", r"encoder.layers.\1.self_attn.q_proj"),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.self\.key", r"encoder.layers.\1.self_attn.k_proj"),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.self\.value", r"encoder.layers.\1.self_attn.v_proj"),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.output\.dense", r"encoder.layers.\1.self_attn.out_proj"),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.output\.LayerNorm", r"encoder.layers.\1.norm1"),
    (r"bert\.encoder\.layer\.(\d+)\.intermediate\.dense", r"encoder.layers.\1.linear1"),
    (r"bert\.encoder\.layer\.(\d+)\.output\.dense", r"encoder.layers.\1.linear2"),
    (r"bert\.encoder\.layer\.(\d+)\.output\.LayerNorm", r"encoder.layers.\1.norm2"),
    (r"bert\.pooler\.dense", "pooler"),
    (r"cls\.predictions\.transform\.dense", "transform"),
    (r"cls\.predictions\.transform\.LayerNorm", "transform_norm"),
    (r"cls\.predictions(?=\.bias$)", "words"),
    (r"cls\.seq_relationship", "follows"),
)
TABLES = ("words.weight", "places.weight", "segments.weight")  # matrices that are no linear layers


def from_transformers(theirs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Our names → arrays in Paddle's layout. A name outside of the table does not change."""
    ours = {}
    for name, weight in theirs.items():
        if not name.startswith(DECODER):
            renamed_to, array = renamed(name), np.asarray(weight)
            ours[renamed_to] = array.T if array.ndim == 2 and renamed_to not in TABLES else array
    return ours


def renamed(name: str) -> str:
    """Our name of a parameter. NVIDIA's scripts call a layer that they may fuse with its activation `dense_act`."""
    name = name.replace(".dense_act.", ".dense.")
    for theirs, ours in NAMES:
        if (match := re.match(theirs, name)) is not None:
            return "words_bias" if name == "cls.predictions.bias" else match.expand(ours) + name[match.end() :]
    return name
