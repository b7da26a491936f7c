"""glm: scores and one step as computed with transformers directly; weights of the published checkpoint."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradients import gradient_norm
from megatron import published_layers
from torch import Tensor, nn
from transformers import GPT2Model

from cases.glm.network import GLMForMultipleChoice
from cases.glm.task import INPUTS
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.build import load_weights, recompute

Config = dict[str, Any]


def first_questions(config: Config, count: int) -> dict[str, Tensor]:
    data = component(config, "train_data")
    batch: dict[str, Tensor] = data.collate_fn([data[i] for i in range(count)])
    batch["is_choice"][1, 2] = False  # as if the second question had two choices
    return batch


def test_the_batch_of_a_prediction_has_the_shapes_of_a_training_batch(tiny: Callable[[str], Config]) -> None:
    config = tiny("glm")
    data = component(config, "train_data")
    trained = data.collate_fn([data[index] for index in range(4)])
    predicted = component(config, "task").full_batch(config, 4)
    shapes = {name: tuple(values.shape) for name, values in trained.items() if name != "answers"}  # for evaluations
    assert {name: tuple(values.shape) for name, values in predicted.items()} == shapes


def score_alone(network: GLMForMultipleChoice, question: dict[str, Tensor]) -> Tensor:
    """Score of one choice of one question, place by place, without padding and with eager attention."""
    used = int(question["target_mask"].nonzero().max()) + 1
    context = int(question["context"])
    words = network.transformer.wte.weight
    embedded = words[question["text"][:used]] + network.block_position.weight[question["position"][1, :used]]
    mask = torch.zeros(used, used)
    for place in range(used):
        for other in range(used):
            if other > place and other >= context:
                mask[place, other] = float("-inf")
    eager = GPT2Model(network.transformer.config)
    eager.set_attn_implementation("eager")
    eager.h, eager.wpe, eager.ln_f = network.transformer.h, network.transformer.wpe, network.transformer.ln_f
    hidden = eager(
        inputs_embeds=embedded[None], position_ids=question["position"][0, :used][None], attention_mask=mask[None, None]
    ).last_hidden_state[0]
    predictions = (hidden @ words.T).log_softmax(dim=-1)
    places = question["target_mask"][:used].nonzero().flatten().tolist()
    return torch.stack([predictions[place, question["target"][place]] for place in places]).sum()


def test_one_step_equals_transformers(tiny: Callable[[str], Config]) -> None:
    config = tiny("glm")
    torch.manual_seed(1)
    network, task = component(config, "network"), component(config, "task")
    batch = first_questions(config, 4)
    loss = task.loss(network, batch)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(network.parameters(), float("inf"))

    network.zero_grad()
    expected = torch.zeros(())
    for question in range(4):
        scores = [
            score_alone(network, {name: batch[name][question, choice] for name in INPUTS})
            for choice in range(3)
            if batch["is_choice"][question, choice]
        ]
        expected = expected - torch.stack(scores).log_softmax(dim=0)[0] / 4
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert norm.item() == pytest.approx(gradient_norm(network), rel=1e-4)
    assert (task.samples(batch), task.units(batch)) == (4, 4)


def test_recomputed_activations_give_the_same_gradients(tiny: Callable[[str], Config]) -> None:
    config = tiny("glm")
    network, task = component(config, "network"), component(config, "task")
    batch = first_questions(config, 4)
    task.loss(network, batch).backward()
    kept = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    recompute(network, config["checkpoint_modules"])
    task.loss(network, batch).backward()
    assert all(torch.equal(parameter.grad, grad) for parameter, grad in zip(network.parameters(), kept, strict=True))


def test_bf16_autocast_is_near(tiny: Callable[[str], Config]) -> None:
    config = tiny("glm")
    network, task = component(config, "network"), component(config, "task")
    batch = first_questions(config, 4)
    with torch.autocast("cpu", torch.bfloat16):
        loss = task.loss(network, batch)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(task.loss(network, batch).item(), rel=0.02)


def test_padding_changes_nothing(tiny: Callable[[str], Config]) -> None:
    config = tiny("glm")
    network, batch = component(config, "network").eval(), first_questions(config, 2)
    scores = network(*(batch[name] for name in INPUTS))
    batch["text"] = batch["text"].clone()
    batch["text"][..., -3:] = 7  # beyond all text
    assert torch.allclose(network(*(batch[name] for name in INPUTS)), scores, atol=1e-6)


def test_scoring_in_parts_gives_the_same_answer(tiny: Callable[[str], Config]) -> None:
    config = tiny("glm")
    network = component(config, "network").eval()
    data = component(config, "eval_data")
    batches = [data.collate_fn([data[i] for i in range(start, start + 50)]) for start in range(0, 200, 50)]
    with torch.no_grad():
        whole, parts = (
            component({"task": {**config["task"], "eval_choices": number}}, "task").evaluate(
                network, batches, torch.device("cpu")
            )
            for number in (10, 2)
        )
    assert whole == parts


def published(network: GLMForMultipleChoice) -> dict[str, Any]:
    """The network's weights as THUDM/GLM saves them, in half precision, with its random states."""
    ours = network.state_dict()
    module = {
        "word_embeddings.weight": ours["transformer.wte.weight"],
        "transformer.position_embeddings.weight": ours["transformer.wpe.weight"],
        "transformer.block_position_embeddings.weight": ours["block_position.weight"],
        **published_layers(network.transformer.state_dict()),
    }
    return {
        "module": {name: weight.half() for name, weight in module.items()},
        "iteration": 200000,
        "random_rng_state": random.getstate(),
        "np_rng_state": np.random.get_state(),
        "torch_rng_state": torch.get_rng_state(),
    }


def test_published_checkpoint_is_loaded(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    config = tiny("glm")
    source, network, task = component(config, "network"), component(config, "network"), component(config, "task")
    path = tmp_path / "mp_rank_00_model_states.pt"
    torch.save(published(source), path)
    load_weights(network, task, str(path))
    for name, weight in source.state_dict().items():
        assert torch.equal(network.state_dict()[name], weight.half().float()), name


def test_checkpoint_of_another_size_is_refused(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    config = tiny("glm")
    network, task = component(config, "network"), component(config, "task")
    checkpoint = published(network)
    checkpoint["module"]["word_embeddings.weight"] = torch.zeros(64, 64)
    del checkpoint["module"]["transformer.final_layernorm.bias"]
    torch.save(checkpoint, tmp_path / "other.pt")
    with pytest.raises(ConfigError) as caught:
        load_weights(network, task, str(tmp_path / "other.pt"))
    assert caught.value.given == (
        "missing: transformer.ln_f.bias; shape of transformer.wte.weight: [64, 64], the network has [32, 64]"
    )
