"""Llama of transformers, whose forward pass gives the loss of each token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM


class Llama(LlamaForCausalLM):  # type: ignore[misc]  # the oldest transformers has no type hints
    """LlamaForCausalLM with its own loss.

    Its own forward pass would look on the device whether the batch holds packed sequences, for which the host waits;
    and it would make the logits of all tokens at once, which take more memory than all else in a large vocabulary.

    Args:
        config: of the network.
        loss_chunk: tokens whose logits are there at the same time; they are computed once more in the backward pass.
            None: those of all tokens, once.
    """

    def __init__(self, config: LlamaConfig, loss_chunk: int | None = None) -> None:
        super().__init__(config)
        self.loss_chunk = loss_chunk

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of each label in nat, float32, [samples x length]; tokens and labels are [samples, length]."""
        hidden, wanted = self.hidden(tokens).flatten(0, 1), labels.flatten()
        if self.loss_chunk is None:
            return self.losses(hidden, wanted)
        parts = zip(hidden.split(self.loss_chunk), wanted.split(self.loss_chunk))
        return torch.cat([self._in_less_memory(*part) for part in parts])

    def hidden(self, tokens: Tensor) -> Tensor:
        """The output of the last layer, [samples, length, width]. Each token attends to those before it."""
        model: Any = self.model
        hidden = model.embed_tokens(tokens)
        places = torch.arange(tokens.shape[1], device=tokens.device)[None]
        rotation, mask = model.rotary_emb(hidden, places), self._mask(hidden)
        for layer in model.layers:
            made = layer(hidden, attention_mask=mask, position_ids=places, position_embeddings=rotation)
            hidden = made[0] if isinstance(made, tuple) else made  # transformers 4 gives a tuple
        return model.norm(hidden)  # type: ignore[no-any-return]

    def _mask(self, hidden: Tensor) -> Tensor | None:
        """The numbers to add to the attention scores, [1, 1, length, length]; None: the kernel is causal by itself.

        transformers computes attention in plain operations where torch is older than 2.1.1.
        """
        if self.config._attn_implementation == "sdpa":
            return None
        length, least = hidden.shape[1], torch.finfo(hidden.dtype).min
        return torch.full((length, length), least, dtype=hidden.dtype, device=hidden.device).triu(1)[None, None]

    def losses(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of each label, [tokens], from the output of the last layer, [tokens, width]."""
        return functional.cross_entropy(self.lm_head(hidden).float(), labels, reduction="none")

    def _in_less_memory(self, hidden: Tensor, labels: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self.losses(hidden, labels)
        return checkpoint(self.losses, hidden, labels, use_reentrant=False)  # type: ignore[no-any-return]
