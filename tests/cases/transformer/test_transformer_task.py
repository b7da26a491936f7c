"""transformer: one step and the search as computed with transformers directly; BLEU as sacrebleu has it for all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from gradients import gradient_norm
from sacrebleu import corpus_bleu
from sentencepiece import SentencePieceProcessor
from torch import Tensor, nn
from toy import fork_ranks

from cases.transformer.data import END, PAD, EvalSentences
from flagperf.contract.components import component
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.ranks import World

Config = dict[str, Any]
Tiny = Callable[[str], Config]


def loss_alone(network: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """Sum over the tokens of one translation, unpadded, with eager attention and the loss as its paper has it."""
    network.set_attn_implementation("eager")
    logits = network(input_ids=source[None], decoder_input_ids=torch.cat([torch.tensor([END]), target[:-1]])[None])
    logarithms = logits.logits[0].log_softmax(dim=-1)
    right = torch.stack([logarithms[place, token] for place, token in enumerate(target)])
    return -(0.9 * right + 0.1 * logarithms.mean(dim=-1)).sum()


def test_one_step_equals_transformers(tiny: Tiny) -> None:
    config = tiny("transformer")
    torch.manual_seed(1)
    network, task, data = (component(config, key) for key in ("network", "task", "train_data"))
    network = network.double()
    pairs = [data[index] for index in range(5)]
    batch = data.collate_fn(pairs)
    loss = task.loss(network, batch)
    loss.backward()
    norm = gradient_norm(network)

    network.zero_grad()
    tokens = sum(len(target) for _, target in pairs)
    expected = torch.stack([loss_alone(network, *pair) for pair in pairs]).sum() / tokens
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert norm == pytest.approx(gradient_norm(network), rel=1e-6)
    assert (task.samples(batch), task.units(batch)) == (5, tokens)


def test_learning_rate(tiny: Tiny) -> None:
    """It grows linearly to lr and then falls with the square root of the steps."""
    config = tiny("transformer")
    optimizer = component(config, "optimizer", [nn.Parameter(torch.zeros(1))])
    scheduler = component(config, "lr_scheduler", optimizer)
    rates = []
    for _ in range(201):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    lr, warmup = config["lr"], config["warmup_updates"]
    expected = [lr * min(step / warmup, (warmup / max(step, 1)) ** 0.5) for step in range(201)]
    assert rates == pytest.approx(expected, rel=1e-12)


def test_sentences_in_a_batch_are_translated_as_alone(tiny: Tiny) -> None:
    config = tiny("transformer")
    torch.manual_seed(1)
    network, task, data = (component(config, key) for key in ("network", "task", "eval_data"))
    sources = [data[index][0] for index in (0, 90, 199)]
    padded = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD)
    together = network.eval().generate(padded, attention_mask=(padded != PAD).long(), generation_config=task.search())
    alone = [network.generate(source[None], generation_config=task.search())[0] for source in sources]
    assert [trimmed(row) for row in together] == [trimmed(row) for row in alone]
    assert max(len(row) for row in together) <= 1 + config["max_length"] + 1


def trimmed(row: Tensor) -> list[int]:
    """A translation without what fills it up."""
    tokens = row.tolist()
    return tokens[: tokens.index(END, 1) + 1] if END in tokens[1:] else tokens


class Given(nn.Module):
    """Translates each sentence into a given one, told by its first tokens."""

    def __init__(self, answers: dict[tuple[int, ...], list[int]]) -> None:
        super().__init__()
        self.answers = answers

    def generate(self, source: Tensor, **_: Any) -> Tensor:
        rows = [torch.tensor(self.answers[tuple(row[row != PAD].tolist())]) for row in source]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def made_up(config: Config, samples: int) -> tuple[EvalSentences, list[str], Given]:
    """The first sentences of the evaluation data, translations that are partly right, and who gives them."""
    data = component(config, "eval_data")
    data.by_length = data.by_length[-samples:]
    texts = [guess(data[index][1], index) for index in range(samples)]
    vocabulary = SentencePieceProcessor(model_file=config["task"]["vocabulary"])
    answers = {
        tuple(data[index][0].tolist()): [END, *vocabulary.encode(text, add_eos=True)]
        for index, text in enumerate(texts)
    }
    return data, texts, Given(answers)


def guess(reference: str, index: int) -> str:
    words = reference.split()
    words[index % len(words)] = "null"
    return " ".join(words[: len(words) - index % 3])


def rank_metrics(config: Config, samples: int, folder: Path) -> dict[str, float]:  # noqa: ARG001
    torch.set_num_threads(1)
    world = World.of()
    world.connect(torch.device("cpu"), "gloo", 60)
    data, _, network = made_up(config, samples)
    share = eval_batches(samples, 2, world)
    batches = [data.collate_fn([data[index] for index in indices]) for _, indices in share]
    return component(config, "task").evaluate(network, batches, torch.device("cpu"))


@pytest.mark.parametrize("samples", [pytest.param(11, id="uneven shares"), pytest.param(1, id="one rank has none")])
def test_bleu_of_two_ranks_equals_that_of_one(tiny: Tiny, tmp_path: Path, samples: int) -> None:
    config = tiny("transformer")
    found = fork_ranks(partial(rank_metrics, config, samples), tmp_path)
    data, texts, _ = made_up(config, samples)
    references = [data[index][1].capitalize() for index in range(samples)]
    score = corpus_bleu(texts, [references], lowercase=True).score
    assert found == [{"bleu": pytest.approx(score, rel=1e-9)}] * 2
    assert 10 < score < 90
