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

UNDECAYED = ("*RMSNorm.*", "LayerNorm.*", "*bias", "*.sinks")  # the rest are matrices


class NextToken(Task):
    """Batches of cases.language_model.data.PackedTokens. The throughput counts tokens.

    A batch is [samples, length + 1], or [samples, 2, length + 1] with the documents of the tokens.
    """

    metrics = ("eval_loss",)
    one_call_per_batch = True

    @override
    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_except(network, UNDECAYED)

    def loss(self, network: nn.Module, batch: Tensor) -> Tensor:
        """Cross-entropy, the mean over all tokens that are to be predicted."""
        return token_losses(network, batch).mean()

    @override
    def samples(self, batch: Tensor) -> int:
        return len(batch)

    @override
    def units(self, batch: Tensor) -> int:
        return len(batch) * (batch.shape[-1] - 1)

    def formula(self, network: nn.Module, config: Mapping[str, Any]) -> dict[str, float]:
        """6N of Kaplan et al. 2020 (arXiv:2001.08361), and torchtitan's: parameters that multiply, and attention.

        6N takes all parameters and leaves attention out; the others leave out an embedding that is only looked up.
        Attention is two products of matrices over the places that a token sees, forward, and twice as many backward:
        over the whole sequence by convention, over half of it as it is computed. Recomputed operations do not count.
        """
        shape, length = config["network"]["config"], config["seq_length"]
        width = self.head_width(shape)
        pair = 12 * shape["num_hidden_layers"] * shape["num_attention_heads"] * width
        looked_up = 0 if shape["tie_word_embeddings"] else shape["vocab_size"] * shape["hidden_size"]
        # A weight takes two operations forward, two for the gradient of its inputs, and two for its own unless frozen.
        each = {parameter: 6 if parameter.requires_grad else 4 for parameter in network.parameters()}
        parameters = sum(parameter.numel() * operations for parameter, operations in each.items())
        parameters -= 6 * self.idle(network, shape)
        products = parameters - looked_up * (6 if all(parameter.requires_grad for parameter in each) else 4)
        return {
            "formula_flops": products + pair * length,
            "formula_flops_causal": products + pair * (length + 1) / 2,
            "formula_flops_6n": parameters,
        }

    def head_width(self, shape: Mapping[str, Any]) -> float:
        """The mean width of a head in the two products of attention."""
        if "v_head_dim" in shape:  # latent attention: keys and values have different widths
            return float(shape["qk_nope_head_dim"] + shape["qk_rope_head_dim"] + shape["v_head_dim"]) / 2
        return shape.get("head_dim") or shape["hidden_size"] // shape["num_attention_heads"]  # type: ignore[no-any-return]

    def idle(self, network: nn.Module, shape: Mapping[str, Any]) -> float:  # noqa: ARG002
        """The parameters that a token does not meet: those of experts that it does not choose."""
        return 0

    def example(self, config: Mapping[str, Any]) -> Tensor:
        """One sequence."""
        rows = (2,) if config.get("document_mask") else ()
        return torch.zeros(1, *rows, config["seq_length"] + 1, dtype=torch.long)

    def evaluate(self, network: nn.Module, batches: Iterable[Tensor], device: torch.device) -> dict[str, float]:
        """`eval_loss`: cross-entropy in nat, the mean over all tokens of the evaluation data, each once."""
        from torchmetrics import MeanMetric  # takes seconds, for which the first step need not wait

        loss = MeanMetric(nan_strategy=keep_nan(), process_group=self.group).to(device)
        for batch in batches:
            loss.update(token_losses(network, batch))
        return {"eval_loss": round(float(loss.compute()), 6)}  # the digits of float32


def token_losses(network: nn.Module, batch: Tensor) -> Tensor:
    """The loss of each token that is to be predicted, [samples x length]."""
    if batch.dim() == 2:
        return network(batch[:, :-1], batch[:, 1:])  # type: ignore[no-any-return]
    tokens, documents = batch.unbind(1)
    return network(tokens[:, :-1], tokens[:, 1:], documents=documents[:, :-1])  # type: ignore[no-any-return]
