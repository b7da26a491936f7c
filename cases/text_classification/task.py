"""Text classification: the class of a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Dict

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from typing_extensions import override

from flagperf.trainer.pytorch.task import Task

Batch = Dict[str, Tensor]
PREFIX = "distilbert."  # of the encoder's names in published weights


class Classification(Task):
    """Batches of cases.text_classification.data.Sentences. The throughput counts sentences."""

    metrics = ("accuracy",)
    one_call_per_batch = True

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy in nat, the mean over the sentences."""
        return functional.cross_entropy(_logits(network, batch).float(), batch["label"])

    @override
    def initial_weights(self, checkpoint: Any) -> Mapping[str, Tensor]:
        """The published weights without the head for hidden tokens, which this task does not have."""
        return {name[len(PREFIX) :]: weight for name, weight in checkpoint.items() if name.startswith(PREFIX)}

    @override
    def pretrained(self, network: nn.Module) -> nn.Module:
        return network.distilbert  # type: ignore[return-value]

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch["label"])

    def example(self, config: Mapping[str, Any]) -> Batch:
        """One sentence without padding."""
        row = torch.zeros(1, config["network"]["config"]["max_position_embeddings"], dtype=torch.long)
        return {"input_ids": row, "attention_mask": row + 1, "label": row[:, 0]}

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`accuracy`: the share of the sentences of the evaluation data whose class the network predicts."""
        counts = torch.zeros(2, dtype=torch.int64, device=device)
        for batch in batches:
            correct = _logits(network, batch).argmax(-1) == batch["label"]
            counts += torch.stack([correct.sum(), correct.new_ones((), dtype=torch.int64) * len(correct)])
        if distributed.is_initialized():
            distributed.all_reduce(counts, group=self.group)
        correct_sentences, sentences = counts.tolist()
        return {"accuracy": correct_sentences / sentences}


def _logits(network: nn.Module, batch: Batch) -> Tensor:
    """[sentences, classes]"""
    return network(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits  # type: ignore[no-any-return]
