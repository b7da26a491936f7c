"""BERT (arXiv:1810.04805) for pre-training, with predictions of the masked words only."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import BertForPreTraining

from flagperf.trainer.pytorch.by_version import take_added_masks

take_added_masks()


class BertForMaskedPlaces(BertForPreTraining):
    """transformers' network, its weights and their names, with another forward pass.

    The library computes a score for each word of the vocabulary at all places of a text. The loss uses those of the
    masked places only, at most 76 of 512.
    """

    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, input_mask: Tensor, masked_places: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Scores of the words [texts, predictions, vocabulary], and of "follows" and "does not" [texts, 2].

        Args:
            input_ids: tokens, [texts, length], as are segment_ids and input_mask.
            segment_ids: 1 in the second sentence.
            input_mask: 1 where a token is, 0 in the padding.
            masked_places: places to predict, [texts, predictions].
        """
        # Numbers to add to the scores: for a mask of 0 and 1 the host would wait until the device knows what it blocks.
        blocked = (1 - input_mask[:, None, None, :]).to(self.dtype) * torch.finfo(self.dtype).min
        output = self.bert(input_ids, attention_mask=blocked, token_type_ids=segment_ids)
        rows = masked_places[..., None].expand(-1, -1, self.config.hidden_size)
        words, follows = self.cls(output.last_hidden_state.gather(1, rows), output.pooler_output)
        return words, follows
