"""Summaries of reports: all tokens train, the tokens of the summaries count in the evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Dict

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from cases.gov_report.data import NOT_COUNTED
from cases.language_model.task import NextToken
from flagperf.trainer.pytorch.by_version import keep_nan

Batch = Dict[str, Tensor]
EMBEDDING, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


class NextTokenOfReports(NextToken):
    """Batches of cases.gov_report.data.Reports. The throughput counts tokens."""

    def initial_weights(self, checkpoint: Any) -> Mapping[str, Tensor]:
        """Published weights whose output layer is the embedding hold this matrix once."""
        return checkpoint if OUTPUT in checkpoint else {**checkpoint, OUTPUT: checkpoint[EMBEDDING]}

    @override
    def loss(self, network: nn.Module, batch: Batch) -> Tensor:  # type: ignore[override]
        """Cross-entropy, the mean over all tokens with a label."""
        losses, counted = self._losses(network, batch)
        return losses.sum() / counted.sum().clamp(min=1)

    @override
    def weight(self, batch: Batch) -> Tensor:
        """Tokens with a label, which predicts them."""
        return (batch["labels"][:, 1:] != NOT_COUNTED).sum()

    @override
    def samples(self, batch: Batch) -> int:  # type: ignore[override]
        return len(batch["labels"])

    @override
    def units(self, batch: Batch) -> int:  # type: ignore[override]
        return batch["labels"].numel()

    @override
    def example(self, config: Mapping[str, Any]) -> Batch:  # type: ignore[override]
        """One sequence."""
        tokens = torch.zeros(1, config["seq_length"], dtype=torch.long)
        return {"input_ids": tokens, "labels": tokens}

    @override
    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:  # type: ignore[override]
        """`eval_loss`: cross-entropy in nat; mean over a sequence's tokens with a label, and then over the sequences.

        MLPerf's reference evaluates one sequence at a time, which gives the same means.
        """
        from torchmetrics import MeanMetric  # takes seconds, for which the first step need not wait

        loss = MeanMetric(nan_strategy=keep_nan(), process_group=self.group).to(device)
        for batch in batches:
            losses, counted = self._losses(network, batch)
            loss.update(losses.sum(1) / counted.sum(1))
        return {"eval_loss": round(float(loss.compute()), 6)}  # the digits of float32

    def _losses(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of each place, 0 where the next token has no label, and whether it has one: [samples, length]."""
        wanted = functional.pad(batch["labels"][:, 1:], (0, 1), value=NOT_COUNTED)
        return network(batch["input_ids"], wanted).view_as(wanted), wanted != NOT_COUNTED
