"""Baichuan 2 13B: Llama's layers with linear biases of distance (ALiBi) and a normalised output layer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM

from cases.language_model.network import Decoder


class Baichuan(Decoder, LlamaForCausalLM):  # type: ignore[misc]  # the oldest transformers has no type hints
    """The network of config.json of baichuan-inc/Baichuan2-13B-Base, as arguments of LlamaConfig.

    Published weights hold query, key and value of a layer in one matrix, W_pack; the numbers are the same.
    """

    def rotation(self, hidden: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """No rotation: cosine 1 and sine 0."""
        width = self.config.hidden_size // self.config.num_attention_heads
        ones = torch.ones(1, places.shape[1], width, dtype=hidden.dtype, device=hidden.device)
        return ones, torch.zeros_like(ones)

    def mask(self, hidden: Tensor, places: Tensor, kind: Any = None, documents: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Each head's slope x the distance of the seen place, [1 or samples, heads, places, length]."""
        distance = self.distances(places)
        slopes = torch.tensor(slopes_of(self.config.num_attention_heads), dtype=hidden.dtype, device=hidden.device)
        seen = slopes[:, None, None] * -distance.clamp(min=0).to(hidden.dtype)[:, None]
        return seen.masked_fill(self.unseen(places, documents=documents)[:, None], torch.finfo(hidden.dtype).min)

    def losses(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """As in Decoder, from rows of the output layer of length 1."""
        weight: Any = self.lm_head.weight
        logits = functional.linear(hidden, functional.normalize(weight))
        return functional.cross_entropy(logits.float(), labels, reduction="none")


def slopes_of(heads: int) -> list[float]:
    """The slopes of ALiBi (arXiv:2108.12409): a geometric series, for 2^n heads; others get terms in between."""
    whole = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * number / whole) for number in range(1, whole + 1)]
    between = [2 ** (-4 * number / whole) for number in range(1, 2 * (heads - whole), 2)]
    return first + between
