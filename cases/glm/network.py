"""GLM (arXiv:2103.10360), scoring the choices of a cloze question.

It is GPT-2 with two differences: each token has a second position, within the blank that it fills, and the tokens
before the blank's text see each other in both directions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import GPT2Config, GPT2Model

from flagperf.trainer.pytorch.by_version import take_added_masks

take_added_masks()


class GLMForMultipleChoice(nn.Module):
    """Scores of the choices: the sum of the log-probabilities of each choice's tokens."""

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        num_layers: int,
        num_attention_heads: int,
        max_position_embeddings: int,
        hidden_dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        config = GPT2Config(
            vocab_size=vocab_size,
            n_positions=max_position_embeddings + 1,
            n_embd=hidden_size,
            n_layer=num_layers,
            n_head=num_attention_heads,
            embd_pdrop=hidden_dropout,
            resid_pdrop=hidden_dropout,
            attn_pdrop=attention_dropout,
            use_cache=False,
            bos_token_id=None,
            eos_token_id=None,
        )
        self.transformer = GPT2Model(config)
        self.block_position = nn.Embedding(max_position_embeddings + 1, hidden_size)
        nn.init.normal_(self.block_position.weight, std=config.initializer_range)

    def forward(self, text: Tensor, position: Tensor, context: Tensor, target: Tensor, target_mask: Tensor) -> Tensor:
        """Scores [questions, choices].

        Args:
            text: token of each place, [questions, choices, length], as are target and target_mask.
            position: position, and position within the blank, [questions, choices, 2, length].
            context: how many tokens lead up to the text of the blank, [questions, choices].
            target: the token that each place is to predict.
            target_mask: 1 where a prediction counts.
        """
        text, position = text.flatten(0, 1), position.flatten(0, 1)
        words = self.transformer.wte(text) + self.block_position(position[:, 1])
        hidden = self.transformer(
            inputs_embeds=words,
            position_ids=position[:, 0],
            attention_mask=attention_mask(context.flatten(), text.shape[-1], words.dtype),
        ).last_hidden_state
        logits = functional.linear(hidden, self.transformer.wte.weight)
        losses = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        return -(losses.view_as(target_mask) * target_mask).sum(-1)


def attention_mask(context: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """The numbers to add to the attention scores, [sequences, 1, length, length].

    Every place sees the `context` first places and those up to itself. Numbers, not booleans: transformers' eager
    attention would add True and False as 1 and 0.
    """
    places = torch.arange(length, device=context.device)
    seen = (places[:, None] >= places) | (places < context[:, None, None])
    blocked = torch.zeros(seen.shape, dtype=dtype, device=context.device).masked_fill(~seen, torch.finfo(dtype).min)
    return blocked[:, None]
