"""Summaries: the step's loss, published weights, and ROUGE of the whole job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.data import default_collate

from flagperf.contract.components import component

Config = dict[str, Any]


@pytest.fixture
def config(tiny: Callable[[str], Config]) -> Config:
    return tiny("t5_small")


def test_a_step_predicts_each_token_from_those_before_it(config: Config) -> None:
    task, data = component(config, "task"), component(config, "train_data")
    torch.manual_seed(1)
    network = component(config, "network")
    batch = default_collate([data[index] for index in range(8)])
    encoded = network.encoder(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    read = functional.pad(batch["labels"].clamp(min=0)[:, :-1], (1, 0))  # 0 is the first token and fills a summary
    decoded = network.decoder(
        read, encoder_hidden_states=encoded, encoder_attention_mask=batch["attention_mask"]
    ).last_hidden_state
    logits = functional.linear(decoded * network.config.d_model**-0.5, network.shared.weight)
    wanted = functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    assert task.loss(network, batch).item() == pytest.approx(wanted.item(), rel=1e-5)


def test_published_weights_hold_the_embedding_once(config: Config) -> None:
    network, task = component(config, "network"), component(config, "task")
    published = dict(network.named_parameters())  # each tensor once
    unused = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.zeros(32, 2)}
    network.load_state_dict(task.initial_weights({**published, **unused}))


def test_rouge_is_the_mean_over_articles(config: Config) -> None:
    """A network that repeats "anna apple athens": three, two and no right words, where others are said."""
    task = component(config, "task")
    batch = default_collate([component(config, "eval_data")[index] for index in range(3)])
    said = batch["labels"][:1].clamp(min=0).repeat(3, 1)

    class Repeats:
        def generate(self, *_: Any, **__: Any) -> torch.Tensor:
            return said

    right = torch.tensor(
        [sorted(set(row[:3].tolist()) & set(said[0, :3].tolist())).__len__() for row in batch["labels"]]
    )
    found = task.evaluate(Repeats(), [batch], torch.device("cpu"))
    assert found["rouge1"] == pytest.approx(100 * (right / 3).mean().item(), abs=1e-3)
