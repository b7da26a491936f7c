"""Translation: label-smoothed cross-entropy of the tokens in training, BLEU of translations by beam search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from typing_extensions import override

from cases.transformer.data import BEGIN, END, PAD, Batch
from flagperf.trainer.pytorch.by_version import take_added_masks
from flagperf.trainer.pytorch.task import Task, repeated

take_added_masks()


class Translation(Task):
    """Batches of cases.transformer.data, for an encoder-decoder of transformers.

    Args:
        vocabulary: path of the sentencepiece model.
        label_smoothing: share of the probability that is spread over all tokens.
        beam_size: translations of a sentence that are kept while it is searched for the best.
        length_penalty: scores are divided by the length to the power of this.
        max_length: tokens that a translation may have, beside its end.
    """

    metrics = ("bleu",)

    def __init__(
        self, vocabulary: str, label_smoothing: float, beam_size: int, length_penalty: float, max_length: int
    ) -> None:
        self.vocabulary, self.label_smoothing = vocabulary, label_smoothing
        self.beam_size, self.length_penalty, self.max_length = beam_size, length_penalty, max_length

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """Mean over the target tokens; each is predicted from those before it."""
        source, target = batch["source"], batch["target"]
        dtype = next(network.parameters()).dtype
        logits = network(
            input_ids=source,
            attention_mask=padding_mask(source, dtype),
            decoder_input_ids=functional.pad(target[:, :-1], (1, 0), value=END),
            decoder_attention_mask=causal_mask(target.shape[1], target.device, dtype),
            use_cache=False,
        ).logits
        return functional.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=self.label_smoothing
        )

    def weight(self, batch: Batch) -> Tensor:
        """Target tokens."""
        return torch.full((), float(batch["tokens"]), device=batch["target"].device)

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch["source"])

    def units(self, batch: Batch) -> int:
        """Target tokens without padding, the ends of sentences included."""
        return batch["tokens"]

    def example(self, config: Mapping[str, Any]) -> Batch:  # noqa: ARG002
        """A sentence of 32 tokens and its translation of 32 tokens."""
        row = torch.full((1, 32), PAD + 1)
        return {"source": row, "target": row, "tokens": 32}

    @override
    def full_batch(self, config: Mapping[str, Any], samples: int) -> Batch:
        """Sentences of 32 tokens, as many as have `samples` tokens, which train_batch_size counts."""
        return {**repeated(self.example(config), max(1, samples // 32)), "tokens": samples}

    @override
    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`bleu`: sacrebleu's, in lower case, in percent."""
        from sacrebleu.metrics import BLEU  # none of these is needed for the first step
        from sentencepiece import SentencePieceProcessor

        vocabulary = SentencePieceProcessor(model_file=self.vocabulary)
        search = self.search()
        translations: list[str] = []
        references: list[str] = []
        for batch in batches:
            source = batch["source"]
            generated = network.generate(source, attention_mask=(source != PAD).long(), generation_config=search)
            translations += vocabulary.decode(generated.tolist())
            references += batch["references"]
        score = BLEU(lowercase=True).corpus_score(translations, [references]) if references else None
        return {"bleu": job_bleu(score, device, self.group)}

    def search(self) -> Any:
        """How the best translation is searched for: as fairseq does by default."""
        from transformers import GenerationConfig

        return GenerationConfig(
            num_beams=self.beam_size,
            length_penalty=self.length_penalty,
            early_stopping=True,  # after one complete translation for each beam
            min_new_tokens=1,
            max_new_tokens=self.max_length + 1,
            suppress_tokens=[BEGIN, PAD],
            bos_token_id=BEGIN,
            pad_token_id=PAD,
            eos_token_id=END,
            decoder_start_token_id=END,
        )


def padding_mask(tokens: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers to add to the attention scores, which hide padding, [sentences, 1, 1, tokens].

    Given a mask of two dimensions, transformers would look at its values, and so wait for the device.
    """
    return blocked((tokens == PAD)[:, None, None], dtype)


def causal_mask(length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The numbers to add to the attention scores, which hide later positions, [1, 1, length, length]."""
    return blocked(torch.ones(1, 1, length, length, dtype=torch.bool, device=device).triu(1), dtype)


def blocked(places: Tensor, dtype: torch.dtype) -> Tensor:
    """A number far below all scores where a place is not to be seen.

    Numbers, because not every attention of transformers takes booleans; of the type of the weights, because PyTorch's
    misreads others without a word.
    """
    return torch.zeros(places.shape, dtype=dtype, device=places.device).masked_fill(places, torch.finfo(dtype).min)


def job_bleu(score: Any, device: torch.device, group: Any = None) -> float:
    """BLEU of the whole job from this rank's score, or None where it has no sentences.

    BLEU is no mean: it comes from the counts of n-grams, how many of them are in the references, and two lengths. They
    are summed over the ranks of the group.
    """
    from sacrebleu.metrics import BLEU

    sums_here = [*score.counts, *score.totals, score.sys_len, score.ref_len] if score else [0] * 10
    sums = torch.tensor(sums_here, dtype=torch.int64, device=device)
    if distributed.is_initialized():
        distributed.all_reduce(sums, group=group)
    *grams, length, reference_length = sums.tolist()
    return float(BLEU.compute_bleu(grams[:4], grams[4:], length, reference_length, smooth_method="exp").score)
