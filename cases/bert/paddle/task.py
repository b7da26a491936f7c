"""Pre-training: the loss of the masked words and of the next sentence; the metric is the share of correct words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Dict

import paddle
from numpy.typing import NDArray
from paddle import Tensor, nn
from paddle.nn import functional
from typing_extensions import override

from cases.bert.paddle.network import Config
from cases.bert.paddle.weights import from_transformers
from cases.bert.shards import NOT_MASKED
from flagperf.trainer.loop.task import Task

Batch = Dict[str, Tensor]  # as cases.bert.paddle.data.ShardedExamples gives them

INPUTS = ("input_ids", "segment_ids", "input_mask", "masked_places")  # arguments of the network, in order


class Pretraining(Task):
    """Batches of examples: two texts with masked words."""

    metrics = ("mlm_accuracy", "eval_loss")
    counts = 5

    def parameters(self, network: nn.Layer) -> list[dict[str, Any]]:
        """Weight decay acts on matrices and embeddings, not on biases and layer norms: these have one dimension."""
        parameters = network.parameters()
        decayed = [parameter for parameter in parameters if parameter.ndim > 1]
        others = [parameter for parameter in parameters if parameter.ndim == 1]
        return [{"params": decayed}, {"params": others, "weight_decay": 0.0}]

    def initial_weights(self, checkpoint: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Weights of MLPerf's checkpoint as NVIDIA's scripts convert it, in the layout of Paddle."""
        return from_transformers(checkpoint.get("model", checkpoint))

    def loss(self, network: nn.Layer, batch: Batch) -> Tensor:
        """Mean over the masked words, and mean over the pairs of texts."""
        return self.terms(network, batch).sum()

    @override
    def terms(self, network: nn.Layer, batch: Batch) -> Tensor:
        """The loss of the masked words, and that of the pairs.

        Paddle's own mean also counts ignored words, unless `ignore_index` is positive.
        """
        words, follows = network(*(batch[name] for name in INPUTS))
        labels = batch["masked_words"].flatten()
        masked = (labels != NOT_MASKED).astype("float32").sum().clip(min=1.0)
        words_loss = functional.cross_entropy(words, labels, ignore_index=NOT_MASKED, reduction="sum") / masked
        return paddle.stack([words_loss, functional.cross_entropy(follows, batch["not_next"])])

    def weight(self, batch: Batch) -> Tensor:
        """Masked words and pairs."""
        masked = (batch["masked_words"] != NOT_MASKED).astype("float32").sum()
        return paddle.stack([masked, paddle.full_like(masked, self.samples(batch))])

    @override
    def samples(self, batch: Batch) -> int:
        return int(batch["input_ids"].shape[0])

    def operations(self, network: nn.Layer, config: Mapping[str, Any]) -> float:  # noqa: ARG002
        """Two for each multiplication of the matrices, as PyTorch's counter has them for the same network."""
        sizes = Config(**{name: value for name, value in config["network"]["config"].items() if name != "_target_"})
        hidden, words = sizes.hidden_size, config["recipe"]["max_predictions_per_seq"]
        length = config["recipe"]["max_seq_length"]
        layer = length * hidden * (4 * hidden + 2 * sizes.intermediate_size) + 2 * length * length * hidden
        heads = hidden * hidden + 2 * hidden + words * hidden * (hidden + sizes.vocab_size)
        return 2.0 * (sizes.num_hidden_layers * layer + heads)

    def count(self, network: nn.Layer, batch: Batch) -> Tensor:
        """Correct words, all masked words, their loss, the loss of the pairs, and the number of pairs."""
        words, follows = network(*(batch[name] for name in INPUTS))
        labels = batch["masked_words"].flatten()
        masked = labels != NOT_MASKED
        correct = (words.argmax(-1) == labels) & masked
        words_loss = functional.cross_entropy(words, labels, ignore_index=NOT_MASKED, reduction="sum")
        follows_loss = functional.cross_entropy(follows, batch["not_next"], reduction="sum")
        pairs = paddle.to_tensor(float(self.samples(batch)))
        counted = (correct.sum(), masked.sum(), words_loss, follows_loss, pairs)
        return paddle.stack([number.astype("float64") for number in counted])

    def measure(self, counted: NDArray[Any]) -> dict[str, float]:
        """`mlm_accuracy`: the share of masked words that are predicted correctly. `eval_loss`: over all examples."""
        correct, words, words_loss, follows_loss, pairs = counted.tolist()
        return {"mlm_accuracy": round(correct / words, 6), "eval_loss": words_loss / words + follows_loss / pairs}
