"""Text classification: a step is what transformers computes, and a wrong file is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from cases.text_classification.data import Sentences
from flagperf.contract.components import component
from flagperf.errors import ConfigError

Config = dict[str, Any]


def test_one_step_equals_transformers(tiny: Callable[[str], Config]) -> None:
    config = tiny("distilbert")
    task, data = component(config, "task"), component(config, "train_data")
    torch.manual_seed(1)
    network = component(config, "network")
    batch = default_collate([data[index] for index in range(8)])
    wanted = network(batch["input_ids"], batch["attention_mask"], labels=batch["label"]).loss
    assert task.loss(network, batch).item() == pytest.approx(wanted.item(), rel=1e-5)


def test_published_weights_fill_the_encoder(tiny: Callable[[str], Config]) -> None:
    """Those of distilbert-base-uncased have a head for hidden tokens, and none for classes."""
    config = tiny("distilbert")
    network, task = component(config, "network"), component(config, "task")
    encoder = {f"distilbert.{name}": weight for name, weight in network.distilbert.state_dict().items()}
    weights = task.initial_weights({**encoder, "vocab_projector.bias": torch.zeros(64)})
    task.pretrained(network).load_state_dict(weights)


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        pytest.param(None, "no such file in the data set", id="missing"),
        pytest.param({"input_ids": [[1]]}, "this file does not have the arrays of the case", id="an array is missing"),
        pytest.param(
            {"input_ids": [[64]], "attention_mask": [[1]], "label": [0]},
            "the values of input_ids in this file are not the case's",
            id="unknown token",
        ),
        pytest.param(
            {"input_ids": [[1]], "attention_mask": [[1]], "label": [-1]},
            "the values of label in this file are not the case's",
            id="no class",
        ),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, arrays: dict[str, Any] | None, problem: str) -> None:
    path = tmp_path / "train.npz"
    if arrays is not None:
        np.savez(path, **arrays)
    with pytest.raises(ConfigError, match=problem) as caught:
        Sentences(str(path), 64, 2)
    assert caught.value.where == str(path)
