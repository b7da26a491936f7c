"""Language modelling: the next token of each place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from cases.optimization import decay_except
from flagperf.trainer.pytorch.by_version import keep_nan
from flagperf.trainer.pytorch.task import Task


class NextToken(Task):
    """Batches of cases.language_model.data.PackedTokens, [samples, length + 1]. The throughput counts tokens."""

    metrics = ("eval_loss",)

    @override
    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_except(network, ["*RMSNorm.*"])

    def loss(self, network: nn.Module, batch: Tensor) -> Tensor:
        """Cross-entropy, the mean over all tokens that are to be predicted."""
        losses: Tensor = network(batch[:, :-1], batch[:, 1:])
        return losses.mean()

    @override
    def samples(self, batch: Tensor) -> int:
        return len(batch)

    @override
    def units(self, batch: Tensor) -> int:
        return len(batch) * (batch.shape[1] - 1)

    def formula(self, network: nn.Module, config: Mapping[str, Any]) -> dict[str, float]:
        """torchtitan's: six operations a parameter, without an embedding that is only looked up, and attention.

        Attention is two products of matrices over the places that a token sees, forward, and twice as many backward:
        over the whole sequence by convention, over half of it as it is computed. Recomputed operations do not count.
        """
        shape, length = config["network"]["config"], config["seq_length"]
        width = shape.get("head_dim") or shape["hidden_size"] // shape["num_attention_heads"]
        pair = 12 * shape["num_hidden_layers"] * shape["num_attention_heads"] * width
        looked_up = 0 if shape["tie_word_embeddings"] else shape["vocab_size"] * shape["hidden_size"]
        products = 6 * (sum(parameter.numel() for parameter in network.parameters()) - looked_up)
        return {"formula_flops": products + pair * length, "formula_flops_causal": products + pair * (length + 1) / 2}

    def example(self, config: Mapping[str, Any]) -> Tensor:
        """One sequence."""
        return torch.zeros(1, config["seq_length"] + 1, dtype=torch.long)

    def evaluate(self, network: nn.Module, batches: Iterable[Tensor], device: torch.device) -> dict[str, float]:
        """`eval_loss`: cross-entropy in nat, the mean over all tokens of the evaluation data, each once."""
        from torchmetrics import MeanMetric  # takes seconds, for which the first step need not wait

        loss = MeanMetric(nan_strategy=keep_nan(), process_group=self.group).to(device)
        for batch in batches:
            loss.update(network(batch[:, :-1], batch[:, 1:]))
        return {"eval_loss": round(float(loss.compute()), 6)}  # the digits of float32
