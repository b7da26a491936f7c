"""Masked language models: which tokens are hidden, and that a step is what transformers computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import default_collate

from flagperf.contract.components import component

Config = dict[str, Any]


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "drawn anew"])
def test_hidden_tokens(tiny: Callable[[str], Config], fixed: bool) -> None:
    """Of a share of the tokens most are read as the mask, some as they are, some as other tokens."""
    config = tiny("longformer")
    data = component({"train_data": {**config["train_data"], "share": 0.5, "fixed": fixed}}, "train_data")
    torch.manual_seed(1)
    read, tokens, hidden = default_collate([data[index] for index in range(200)])
    assert (read[~hidden] == tokens[~hidden]).all()
    assert hidden.float().mean().item() == pytest.approx(0.5, abs=0.02)
    assert (read == config["mask_token"])[hidden].float().mean().item() == pytest.approx(0.8 + 0.1 / 24, abs=0.03)
    assert (read == tokens)[hidden].float().mean().item() == pytest.approx(0.1 + 0.1 / 24, abs=0.03)
    assert torch.equal(data[0][0], read[0]) is fixed
    assert torch.equal(data[0][1], tokens[0])


@pytest.mark.parametrize("case", ["bert_hf", "longformer"])
def test_one_step_equals_transformers(tiny: Callable[[str], Config], case: str) -> None:
    """bert_hf predicts all tokens, longformer the hidden ones."""
    config = tiny(case)
    task, data = component(config, "task"), component(config, "train_data")
    torch.manual_seed(1)
    network = component(config, "network")
    read, tokens, hidden = default_collate([data[index] for index in range(8)])
    labels = tokens if case == "bert_hf" else tokens.masked_fill(~hidden, -100)
    wanted = network(input_ids=read, labels=labels).loss
    assert task.loss(network, [read, tokens, hidden]).item() == pytest.approx(wanted.item(), rel=1e-5)
    with torch.no_grad():
        right = (network(input_ids=read).logits.argmax(-1) == tokens)[hidden]
        measured = task.evaluate(network, [[read, tokens, hidden]], torch.device("cpu"))
    assert measured == {"mlm_accuracy": pytest.approx(right.float().mean().item())}


def test_published_weights_of_bert_fill_the_network(tiny: Callable[[str], Config]) -> None:
    config = tiny("bert_hf")
    network = component(config, "network")
    published = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): weight
        for name, weight in network.state_dict().items()
        if name != "cls.predictions.decoder.bias"
    }
    published["cls.seq_relationship.weight"] = torch.zeros(2, 64)
    network.load_state_dict(component(config, "task").initial_weights(published))
