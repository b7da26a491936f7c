"""Language modelling: the next token of conversations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cases.cpm.data import IGNORED
from cases.megatron import gpt2_weights
from cases.optimization import decay_except
from flagperf.trainer.pytorch.by_version import keep_nan, take_added_masks
from flagperf.trainer.pytorch.task import Task

Batch = Tuple[Tensor, Tensor]  # tokens and labels of cases.cpm.data.Conversations, [samples, length]

NO_WORDS = 1e-11  # least length of a sum of word vectors that has a direction


take_added_masks()


class LanguageModel(Task):
    """A transformers network with a language-modelling head."""

    metrics = ("embedding_average", "perplexity", "loss")

    @override
    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_except(network, ["*.bias", "LayerNorm.*"])

    def initial_weights(self, checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
        """Weights of a checkpoint of CPM-1-Finetune, under the names of GPT2LMHeadModel."""
        weights = gpt2_weights(checkpoint.get("model", checkpoint))
        words = weights.get("transformer.wte.weight")
        return weights if words is None else {**weights, "lm_head.weight": words}

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy, the mean over all tokens of the batch that are to be predicted."""
        tokens, labels = batch
        logits = network(input_ids=tokens, attention_mask=causal_mask(tokens)).logits
        losses = functional.cross_entropy(
            logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return losses / self.weight(batch).clamp(min=1)

    def weight(self, batch: Batch) -> Tensor:
        """Tokens that are to be predicted."""
        return (batch[1] != IGNORED).sum()

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch[0])

    @override
    def example(self, config: Mapping[str, Any]) -> Batch:
        row = torch.zeros(1, config["seq_length"], dtype=torch.long)
        return row, row

    def evaluate(self, network: Any, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """How well each token is predicted from the true tokens before it.

        `loss`: mean cross-entropy of all tokens (nat). `perplexity`: e to its power.
        `embedding_average`: mean over the samples of the cosine between the sum of the word vectors of the predicted
        tokens and that of the true ones (embedding average, arXiv:1603.08023), with the word vectors of the network
        itself, as FlagPerf has it.
        """
        from torchmetrics import MeanMetric  # late: the import takes seconds

        loss, similarity = (MeanMetric(nan_strategy=keep_nan(), process_group=self.group).to(device) for _ in range(2))
        vectors = network.get_input_embeddings().weight
        for tokens, labels in batches:
            logits = network(input_ids=tokens, attention_mask=causal_mask(tokens)).logits.float()
            counts = labels != IGNORED
            losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            loss.update(losses[counts.flatten()])  # not by weights, which MeanMetric forgets without a NaN strategy
            predicted, true = (
                (vectors[words] * counts[..., None]).sum(dim=1) for words in (logits.argmax(-1), labels * counts)
            )
            cosines = functional.cosine_similarity(predicted, true, eps=NO_WORDS)
            similarity.update(cosines[true.norm(dim=1) > NO_WORDS])
        mean = loss.compute()
        return {
            "embedding_average": round(float(similarity.compute()), 6),  # the digits of float32
            "perplexity": float(mean.exp()),
            "loss": float(mean),
        }


def causal_mask(tokens: Tensor) -> Tensor:
    """The positions that each position attends to, [1, 1, length, length]: itself and those before it.

    transformers makes the same mask, but first checks for packed sequences, and for that the host waits for the device.
    """
    length = tokens.shape[1]
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=tokens.device).tril()
