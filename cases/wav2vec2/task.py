"""Contrastive learning: find the quantized features of a masked frame among those of other masked frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cases.wav2vec2.masking import Batch
from flagperf.trainer.pytorch.by_version import keep_nan
from flagperf.trainer.pytorch.task import Task


class ContrastiveLearning(Task):
    """Batches of masked clips.

    Args:
        loss_weights: weights of the two losses beside the contrastive one: how unevenly the code vectors are used, and
            the mean square of the features.
        num_codevectors: code vectors of all groups together.
        logit_temp: divisor of the cosine similarities.
    """

    metrics = ("accuracy", "eval_loss")

    def __init__(self, loss_weights: Sequence[float], num_codevectors: int, logit_temp: float) -> None:
        self.diversity_weight, self.penalty_weight = loss_weights
        self.num_codevectors, self.logit_temp = num_codevectors, logit_temp

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Mean over the masked frames, as are the two losses beside it: a batch with more of them counts more."""
        predicted, target, perplexity, penalty = network(batch["audio"], batch["masked"])
        contrastive = _cross_entropy(self.logits(predicted, target, batch["negatives"])).mean()
        diversity = (self.num_codevectors - perplexity) / self.num_codevectors
        return contrastive + self.diversity_weight * diversity + self.penalty_weight * penalty  # type: ignore[no-any-return]

    def weight(self, batch: Batch) -> Tensor:
        """Masked frames."""
        return torch.full((), float(len(batch["masked"])), device=batch["audio"].device)

    def logits(self, predicted: Tensor, target: Tensor, negatives: Tensor) -> Tensor:
        """Similarities to the true features and to the distractors, [masked frames, 1 + negatives].

        Distractors with the same code as the true features cannot be chosen, as in the original.
        """
        from transformers import Wav2Vec2ForPreTraining

        distractors = target[negatives.t()]
        logits: Tensor = Wav2Vec2ForPreTraining.compute_contrastive_logits(
            target[None], distractors, predicted, self.logit_temp
        )
        same = functional.pad((distractors == target).all(dim=-1), (0, 0, 1, 0))
        return logits.float().masked_fill(same, float("-inf")).t()

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch["audio"])

    def units(self, batch: Batch) -> int:
        """Masked frames."""
        return len(batch["masked"])

    def example(self, config: Mapping[str, Any]) -> Batch:
        """The longest clip, 250,000 samples of audio at full size. Every second frame is masked."""
        samples, network = config["max_sample_size"], config["network"]
        frames = samples
        for kernel, stride in zip(network["conv_kernel"], network["conv_stride"]):
            frames = (frames - kernel) // stride + 1
        masked = torch.arange(0, frames, 2)
        negatives = torch.zeros(len(masked), config["masking"]["num_negatives"], dtype=torch.long)
        return {"audio": torch.zeros(1, samples), "masked": masked, "negatives": negatives}

    @override
    def full_batch(self, config: Mapping[str, Any], samples: int) -> Batch:
        """The longest clips, as many as `samples` groups of max_tokens audio samples have."""
        one, clips = self.example(config), samples * max(1, config["max_tokens"] // config["max_sample_size"])
        return {name: tensor.repeat(clips, *[1] * (tensor.dim() - 1)) for name, tensor in one.items()}

    @override
    def evaluate(self, network: nn.Module, batches: Iterable[list[Batch]], device: torch.device) -> dict[str, float]:
        """`accuracy`: the share of masked frames with recognised features; `eval_loss`: the contrastive loss."""
        from torchmetrics import MeanMetric  # takes seconds, for which the first step need not wait

        accuracy, loss = (MeanMetric(nan_strategy=keep_nan(), process_group=self.group).to(device) for _ in range(2))
        for batch in (batch for same_length in batches for batch in same_length):
            predicted, target, _, _ = network(batch["audio"], batch["masked"])
            logits = self.logits(predicted, target, batch["negatives"])
            accuracy.update(_found(logits))
            loss.update(_cross_entropy(logits))
        return {"accuracy": round(float(accuracy.compute()), 6), "eval_loss": round(float(loss.compute()), 6)}


def _cross_entropy(logits: Tensor) -> Tensor:
    """Cross-entropy of each masked frame; the true features come first."""
    return functional.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long), reduction="none")


def _found(logits: Tensor) -> Tensor:
    """1 where the true features have the largest similarity, 0 elsewhere, also where all are equal."""
    return ((logits.argmax(dim=1) == 0) & (logits.argmin(dim=1) != 0)).float()
