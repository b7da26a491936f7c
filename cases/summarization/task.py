"""Summarization: cross-entropy of the summaries in training, ROUGE of generated summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Dict

import torch
from torch import Tensor, distributed, nn
from typing_extensions import override

from cases.optimization import decay_except
from flagperf.trainer.pytorch.task import Task

Batch = Dict[str, Tensor]
PAD, END, UNKNOWN = 0, 1, 2  # tokens of T5
TIED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")  # the tensor shared.weight
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"  # in the published weights only


class Summary(Task):
    """Batches of cases.summarization.data.Articles, for T5 of transformers. The throughput counts articles.

    Args:
        vocabulary: path of the sentencepiece model.
        max_length: tokens of a generated summary, its first and its end included.
        no_decay: patterns of parameters without weight decay, as in cases.optimization.decay_except.
    """

    metrics = ("rouge1", "rouge2", "rougeL")

    def __init__(self, vocabulary: str, max_length: int, no_decay: Iterable[str] = ()) -> None:
        self.vocabulary, self.max_length, self.no_decay = vocabulary, max_length, list(no_decay)

    @override
    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_except(network, self.no_decay)

    @override
    def initial_weights(self, checkpoint: Any) -> Mapping[str, Tensor]:
        """The published weights hold the embedding once, and a table that no layer reads."""
        weights = {name: weight for name, weight in checkpoint.items() if name != UNUSED}
        return {**dict.fromkeys(TIED, weights.get("shared.weight")), **weights}

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy in nat, the mean over the tokens of the summaries."""
        return network(**batch, use_cache=False).loss  # type: ignore[no-any-return]

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch["labels"])

    def example(self, config: Mapping[str, Any]) -> Batch:
        """One article and its summary, without filling."""
        article = torch.full((1, config["article_length"]), UNKNOWN + 1)
        return {
            "input_ids": article,
            "attention_mask": torch.ones_like(article),
            "labels": article[:, : config["summary_length"]],
        }

    @override
    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`rouge1`, `rouge2`, `rougeL`: means of the F-measures over the articles, of stemmed words, in percent."""
        from sentencepiece import SentencePieceProcessor  # none of these is needed for the first step
        from torchmetrics.functional.text import rouge_score

        vocabulary = SentencePieceProcessor(model_file=self.vocabulary)
        sums = torch.zeros(len(self.metrics) + 1, dtype=torch.float64)
        for batch in batches:
            found = network.generate(
                batch["input_ids"], attention_mask=batch["attention_mask"], generation_config=self.search()
            )
            texts, wanted = (self.texts(vocabulary, rows) for rows in (found, batch["labels"]))
            scores = rouge_score(texts, wanted, use_stemmer=True, rouge_keys=self.metrics)
            means = torch.stack([*(scores[f"{name}_fmeasure"] for name in self.metrics), torch.tensor(1.0)])
            sums += means.double() * len(texts)
        sums = sums.to(device)
        if distributed.is_initialized():
            distributed.all_reduce(sums, group=self.group)
        *scores, articles = sums.tolist()
        return {name: 100 * score / articles for name, score in zip(self.metrics, scores)}

    def search(self) -> Any:
        """Each token is the most likely one, as in FlagPerf."""
        from transformers import GenerationConfig

        return GenerationConfig(
            max_length=self.max_length, decoder_start_token_id=PAD, pad_token_id=PAD, eos_token_id=END
        )

    @staticmethod
    def texts(vocabulary: Any, rows: Tensor) -> Sequence[str]:
        """The words of each row, without special tokens. T5's vocabulary ends with tokens that no text has."""
        words = range(UNKNOWN + 1, vocabulary.get_piece_size())
        return [vocabulary.decode([token for token in row if token in words]) for row in rows.tolist()]  # type: ignore[no-any-return]
