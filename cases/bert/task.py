"""Pre-training: the loss of the masked words and of the next sentence; the metric is the share of correct words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Dict

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cases.bert.shards import NOT_MASKED
from cases.optimization import decay_except
from flagperf.trainer.pytorch.by_version import keep_nan
from flagperf.trainer.pytorch.task import Task

Batch = Dict[str, Tensor]  # as cases.bert.data.ShardedExamples gives them

INPUTS = ("input_ids", "segment_ids", "input_mask", "masked_places")  # arguments of the network, in order


class Pretraining(Task):
    """Batches of examples: two texts with masked words."""

    metrics = ("mlm_accuracy", "eval_loss")
    one_call_per_batch = True

    @override
    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_except(network, ["*.bias", "LayerNorm.*"])

    def initial_weights(self, checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
        """Weights of MLPerf's checkpoint as NVIDIA's scripts convert it, under the names of transformers.

        NVIDIA uses the library's names, except for linear layers that its scripts may fuse with their activation.
        The scores of the words use the weights of the embedding; the published file may have them once or twice.
        """
        weights = {
            name.replace(".dense_act.", ".dense."): weight
            for name, weight in checkpoint.get("model", checkpoint).items()
        }
        for tied, source in (
            ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
            ("cls.predictions.decoder.bias", "cls.predictions.bias"),
        ):
            if source in weights:
                weights[tied] = weights[source]
        return weights

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Mean over the masked words, and mean over the pairs of texts."""
        return self.terms(network, batch).sum()

    @override
    def terms(self, network: nn.Module, batch: Batch) -> Tensor:
        """The loss of the masked words, and that of the pairs."""
        words, follows = network(*(batch[name] for name in INPUTS))
        labels = batch["masked_words"].flatten()
        of_words = functional.cross_entropy(words.flatten(0, 1), labels, ignore_index=NOT_MASKED, reduction="sum")
        masked = (labels != NOT_MASKED).sum().clamp(min=1)
        return torch.stack([of_words / masked, functional.cross_entropy(follows, batch["not_next"])])

    def weight(self, batch: Batch) -> Tensor:
        """Masked words and pairs."""
        masked = (batch["masked_words"] != NOT_MASKED).sum()
        return torch.stack([masked, torch.full_like(masked, self.samples(batch))])

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch["input_ids"])

    @override
    def example(self, config: Mapping[str, Any]) -> Batch:
        recipe = config["recipe"]
        row = torch.zeros(1, recipe["max_seq_length"], dtype=torch.long)
        places = torch.zeros(1, recipe["max_predictions_per_seq"], dtype=torch.long)
        texts = {"input_ids": row, "segment_ids": row, "input_mask": row, "not_next": row[:, 0]}
        return {**texts, "masked_places": places, "masked_words": places}

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`mlm_accuracy`: the share of masked words that are predicted correctly. `eval_loss`: over all examples."""
        from torchmetrics import MeanMetric  # late: its import takes seconds
        from torchmetrics.classification import MulticlassAccuracy

        words, over = network.config.vocab_size, {"process_group": self.group}
        accuracy = MulticlassAccuracy(words, average="micro", validate_args=False, **over).to(device)
        words_loss, follows_loss = (MeanMetric(nan_strategy=keep_nan(), **over).to(device) for _ in range(2))
        for batch in batches:
            words, follows = network(*(batch[name] for name in INPUTS))
            masked = batch["masked_words"] != NOT_MASKED
            scores, labels = words[masked], batch["masked_words"][masked]
            accuracy.update(scores, labels)
            words_loss.update(functional.cross_entropy(scores, labels, reduction="none"))
            follows_loss.update(functional.cross_entropy(follows, batch["not_next"], reduction="none"))
        return {
            "mlm_accuracy": round(float(accuracy.compute()), 6),  # the digits of float32: 0.9 is not below 0.9
            "eval_loss": float(words_loss.compute()) + float(follows_loss.compute()),
        }
