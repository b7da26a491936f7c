"""Decoder-only networks: the losses and gradients of transformers' own networks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForCausalLM, LlamaForCausalLM
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from cases.language_model.experts import modules_with_experts
from flagperf.contract.components import component
from flagperf.trainer.pytorch.parallel.evaluated import equally_many

Config = dict[str, Any]

LIKE_TRANSFORMERS = ("chatglm3_6b", "deepseek_v3", "gpt2", "gpt_oss_20b", "mixtral_8x7b", "qwen1_5_moe", "qwen3_8b")


def first(config: Config, count: int) -> Tensor:
    data = component(config, "train_data")
    return torch.stack([data[number] for number in range(count)])


def losses_and_gradients(losses: Tensor, network: Any) -> tuple[Tensor, Tensor]:
    losses.mean().backward()
    gradients = [parameter.grad.flatten() for parameter in network.parameters() if parameter.grad is not None]
    return losses.detach(), torch.cat(gradients)


@pytest.mark.parametrize("case", LIKE_TRANSFORMERS)
def test_one_step_equals_transformers(tiny: Callable[[str], Config], case: str) -> None:
    """With attention that is written out, and with one expert after the other."""
    config = tiny(case)
    batch = first(config, 2)
    torch.manual_seed(1)
    network = component(config, "network").eval()
    settings = copy.deepcopy(network.config)
    settings._experts_implementation = "eager"
    library = AutoModelForCausalLM.from_config(settings, attn_implementation="eager").eval()
    library.load_state_dict(network.state_dict())
    logits = library(input_ids=batch[:, :-1]).logits.flatten(0, 1)
    wanted = losses_and_gradients(functional.cross_entropy(logits, batch[:, 1:].flatten(), reduction="none"), library)
    found = losses_and_gradients(network(batch[:, :-1], batch[:, 1:]), network)
    assert torch.allclose(found[0], wanted[0], atol=1e-5)
    assert torch.allclose(found[1], wanted[1], atol=1e-5)


def test_baichuan(tiny: Callable[[str], Config]) -> None:
    """Transformers' Llama without rotation, with Bloom's ALiBi and a normalised output layer."""
    config = tiny("baichuan2_13b")
    batch, heads = first(config, 2), config["network"]["config"]["num_attention_heads"]
    torch.manual_seed(1)
    network = component(config, "network")
    library: Any = LlamaForCausalLM(copy.deepcopy(network.config))
    library.load_state_dict(network.state_dict())
    tokens, width = batch[:, :-1], config["network"]["config"]["hidden_size"] // heads
    rows, length = tokens.shape
    library.model.rotary_emb.forward = lambda *_, **__: (torch.ones(1, length, width), torch.zeros(1, length, width))
    alibi = build_alibi_tensor(torch.ones(rows, length), heads, torch.float32).view(rows, heads, 1, length)
    mask = alibi + torch.full((length, length), torch.finfo(torch.float32).min).triu(1)
    hidden = library.model(input_ids=tokens, attention_mask=mask).last_hidden_state
    logits = hidden @ functional.normalize(library.lm_head.weight).T
    wanted = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none")
    assert torch.allclose(network(tokens, batch[:, 1:]), wanted, atol=1e-5)


def test_the_balance_of_the_experts_is_in_the_loss_of_a_training(tiny: Callable[[str], Config]) -> None:
    """Of a layer; transformers' balance counts each choice of a token."""
    config = tiny("mixtral_8x7b")
    one_layer = {**config["network"], "config": {**config["network"]["config"], "num_hidden_layers": 1}}
    batch = first(config, 2)
    network = component({"network": one_layer}, "network")
    logits: list[Tensor] = []
    router = network.model.layers[0].mlp.gate
    router.register_forward_hook(lambda _module, _inputs, output: logits.append(output[0]))
    trained = network(batch[:, :-1], batch[:, 1:]).mean()
    wanted = load_balancing_loss_func(tuple(logits), 4, 2) / 2
    evaluated = network.eval()(batch[:, :-1], batch[:, 1:]).mean()
    assert (trained - evaluated).item() == pytest.approx(0.01 * wanted.item(), rel=1e-3)


@torch.no_grad()
def test_repeated_calls_of_a_rank_count_no_load(tiny: Callable[[str], Config]) -> None:
    """A rank that has fewer batches than others calls the network with its last one again."""
    config = tiny("mixtral_8x7b")
    network, task, device = component(config, "network").eval(), component(config, "task"), torch.device("cpu")
    batches = [first(config, 4)[:1], first(config, 4)[1:]]
    wanted = task.evaluate(network, batches, device)
    assert task.evaluate(network, equally_many(network, iter(batches), 3), device) == wanted
    assert task.evaluate(network, [*batches, *batches[1:] * 3], device) != wanted


def test_an_expert_drops_tokens_above_its_capacity(tiny: Callable[[str], Config]) -> None:
    """The figures of an evaluation show the busiest expert, and the choices that no expert computed."""
    config = tiny("qwen1_5_moe")
    task, device = component(config, "task"), torch.device("cpu")
    figures = {}
    for capacity in (None, 1.0, 0.0):
        torch.manual_seed(1)
        network = component({"network": {**config["network"], "capacity": capacity}}, "network").eval()
        with torch.no_grad():
            figures[capacity] = task.evaluate(network, [first(config, 4)], device)
        assert [experts.loads for experts in modules_with_experts(network)] == [[], []]
    assert {tuple(values) for values in figures.values()} == {task.metrics}
    loads = {values["expert_load"] for values in figures.values()}
    assert min(loads) > 100
    assert figures[None]["dropped_tokens"] == 0
    assert 0 < figures[1.0]["dropped_tokens"] < 50
    assert figures[0.0]["dropped_tokens"] == 100
    assert len({values["eval_loss"] for values in figures.values()}) == 3
