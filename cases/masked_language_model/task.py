"""Masked language modelling: the hidden tokens of a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, List

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from typing_extensions import override

from cases.optimization import decay_except
from flagperf.trainer.pytorch.task import Task

Batch = List[Tensor]


class HiddenToken(Task):
    """Batches of cases.masked_language_model.data.HiddenTokens. The throughput counts tokens.

    Args:
        all_tokens: whether the loss is the mean over all tokens, as in FlagPerf's bert_hf; False: over the hidden ones.
        no_decay: patterns of parameters without weight decay, as in cases.optimization.decay_except.
    """

    metrics = ("mlm_accuracy",)
    one_call_per_batch = True

    def __init__(self, all_tokens: bool = False, no_decay: Iterable[str] = ()) -> None:
        self.all_tokens, self.no_decay = all_tokens, list(no_decay)

    @override
    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_except(network, self.no_decay)

    @override
    def initial_weights(self, checkpoint: Any) -> Mapping[str, Tensor]:
        """The published weights of BERT have TensorFlow's names of norms, and a head for sentence pairs."""
        names = {name: name.replace("gamma", "weight").replace("beta", "bias") for name in checkpoint}
        weights = {new: checkpoint[old] for old, new in names.items() if "seq_relationship" not in old}
        if "cls.predictions.bias" in weights:
            weights.setdefault("cls.predictions.decoder.bias", weights["cls.predictions.bias"])  # one tensor
        return weights

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy in nat, the mean over the tokens that count."""
        read, tokens, hidden = batch
        losses = functional.cross_entropy(_logits(network, read).float(), tokens.flatten(), reduction="none")
        if self.all_tokens:
            return losses.mean()
        counted = hidden.flatten().to(losses.dtype)
        return (losses * counted).sum() / counted.sum().clamp(min=1)

    def weight(self, batch: Batch) -> Tensor:
        """Hidden tokens."""
        return batch[2].sum()

    @property
    @override
    def weighted(self) -> bool:
        return not self.all_tokens

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch[0])

    @override
    def units(self, batch: Batch) -> int:
        return batch[0].numel()

    def example(self, config: Mapping[str, Any]) -> Batch:
        """One sequence with one hidden token."""
        row = torch.zeros(1, config["seq_length"], dtype=torch.long)
        return [row, row, torch.arange(config["seq_length"])[None] == 0]

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`mlm_accuracy`: the share of the hidden tokens of the evaluation data that the network predicts."""
        counts = torch.zeros(2, dtype=torch.int64, device=device)
        for read, tokens, hidden in batches:
            correct = (_logits(network, read).argmax(-1) == tokens.flatten()) & hidden.flatten()
            counts += torch.stack([correct.sum(), hidden.sum()])
        if distributed.is_initialized():
            distributed.all_reduce(counts, group=self.group)
        correct_tokens, all_hidden = counts.tolist()
        return {"mlm_accuracy": correct_tokens / max(1, all_hidden)}


def _logits(network: nn.Module, read: Tensor) -> Tensor:
    """[tokens, vocabulary]"""
    logits: Tensor = network(input_ids=read).logits
    return logits.flatten(0, 1)
