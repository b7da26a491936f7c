"""Multiple choice: the loss prefers the right choice to the others, the metric is exact match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Dict

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cases.megatron import gpt2_weights
from cases.optimization import decay_except
from flagperf.trainer.pytorch.by_version import keep_nan
from flagperf.trainer.pytorch.task import Task

Batch = Dict[str, Tensor]  # as cases.glm.data.RecordQuestions.collate_fn makes them

INPUTS = ("text", "position", "context", "target", "target_mask")  # arguments of the network, in order


class MultipleChoice(Task):
    """Batches of questions with their choices.

    Args:
        eval_choices: choices of each question that are scored at once in evaluation, where questions may have many.
    """

    metrics = ("accuracy",)

    def __init__(self, eval_choices: int) -> None:
        self.eval_choices = eval_choices

    @override
    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_except(network, ["*.bias", "LayerNorm.*"])

    def initial_weights(self, checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
        """Weights of a checkpoint of THUDM/GLM such as blocklm-large-blank, under our names."""
        return gpt2_weights(checkpoint.get("module", {}))

    @override
    def to_device(self, batch: Batch, device: torch.device, memory_format: torch.memory_format) -> Batch:
        return {name: values.to(device, non_blocking=True) for name, values in batch.items()}

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy over the choices; in training the first one is right."""
        scores = _only_choices(network(*(batch[name] for name in INPUTS)), batch)
        return functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=scores.device))

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch["text"])

    def example(self, config: Mapping[str, Any]) -> Batch:
        """One choice."""
        row = torch.zeros(1, 1, config["network"]["max_position_embeddings"], dtype=torch.long)
        return {
            "text": row,
            "position": torch.stack([row, row], dim=2),
            "context": row[..., 0],
            "target": row,
            "target_mask": row,
            "is_choice": torch.ones(1, 1, dtype=torch.bool),
        }

    @override
    def full_batch(self, config: Mapping[str, Any], samples: int) -> Batch:
        """Questions with as many choices as the sample data has: at full size the most of the real training data."""
        choices = config["data"]["sample"]["choices"]
        return {
            name: values.repeat(samples, choices, *[1] * (values.dim() - 2))
            for name, values in self.example(config).items()
        }

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`accuracy`: the share of questions whose best choice is one of the right ones."""
        from torchmetrics import MeanMetric  # takes seconds, for which the first step need not wait

        accuracy = MeanMetric(nan_strategy=keep_nan(), process_group=self.group).to(device)
        for batch in batches:
            parts = zip(*(batch[name].split(self.eval_choices, dim=1) for name in INPUTS))
            scores = _only_choices(torch.cat([network(*part) for part in parts], dim=1), batch)
            accuracy.update(batch["answers"].gather(1, scores.argmax(dim=1, keepdim=True)).float())
        return {"accuracy": round(float(accuracy.compute()), 6)}  # the digits of float32: 0.9 is not below 0.9


def _only_choices(scores: Tensor, batch: Batch) -> Tensor:
    """Scores in full precision; a repeated choice gets one that is never the best."""
    return scores.float().masked_fill(~batch["is_choice"], torch.finfo(torch.float32).min)
