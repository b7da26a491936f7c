"""Low-rank adapters: what trains, what a checkpoint holds, and equal numbers on one rank, with DDP and divided."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_llama
import torch
import toy
from test_parallel import DDP, EQUAL, STEPS, Told, configuration, sharded, train
from torch import nn

from flagperf.contract.settings import Adapter, Settings
from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints.files import SingleRank, newest_intact
from flagperf.trainer.pytorch.adapter import adapted, is_adapted, merged
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task

LORA: Mapping[str, Any] = {"modules": ["q_proj", "layers.*.self_attn.o_proj"], "rank": 4, "alpha": 8, "dropout": 0.0}
HALF = STEPS // 2


def lora(parallel: Mapping[str, Any], ranks: int, **settings: Any) -> dict[str, Any]:
    return configuration(parallel, ranks, adapter=dict(LORA), **settings)


def halves(parallel: Mapping[str, Any], ranks: int, folder: Path) -> list[Told]:
    """Half of a training and the rest, from a checkpoint of adapters that lies where all ranks see it."""
    os.environ["FLAGPERF_CHECKPOINT_DIR"] = saved = str(folder.parent / "checkpoint")
    first = train(lora(parallel, ranks, max_steps=HALF, checkpoint_freq=HALF), folder)
    return [first, train(lora(parallel, ranks, resume=saved), folder)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The whole training on one rank."""
    (told,) = toy.fork_ranks(partial(train, lora(DDP, 1)), tmp_path_factory.mktemp("alone"), ranks=1)
    return told


@pytest.mark.parametrize("parallel", [pytest.param(DDP, id="ddp"), pytest.param(sharded(dp_shard=2), id="sharded")])
def test_two_ranks_equal_one_also_resumed(parallel: Mapping[str, Any], alone: Told, tmp_path: Path) -> None:
    for first, rest in toy.fork_ranks(partial(halves, parallel, 2), tmp_path):
        assert [*first.losses, *rest.losses] == pytest.approx(alone.losses, rel=EQUAL)
        assert [*first.norms, *rest.norms] == pytest.approx(alone.norms, rel=EQUAL)
        assert rest.finished["frozen_checksum"] == alone.finished["frozen_checksum"]
    checkpoint = newest_intact(tmp_path / "checkpoint", SingleRank())[0]
    files = [path for path in (checkpoint, *checkpoint.rglob("*")) if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)  # names are not compressed
    assert b"adapter.down.weight" in content
    assert b"embed_tokens" not in content


def test_only_adapters_train(alone: Told) -> None:
    config, one = lora(DDP, 1), World(0, 1, 0, 1)
    before = build_network(config, Settings.read(config), Task(), torch.device("cpu"), one).state_dict()
    changed = {
        name for name, array in alone.parameters.items() if not torch.equal(torch.from_numpy(array), before[name])
    }
    layers = [f"model.layers.{layer}.self_attn.{name}" for layer in (0, 1) for name in ("q_proj", "o_proj")]
    assert changed == {f"{layer}.adapter.{matrix}.weight" for layer in layers for matrix in ("down", "up")}


def test_merged_weights_give_the_same_logits() -> None:
    torch.manual_seed(0)
    network = adapted(tiny_llama.network(), Adapter(["q_proj", "down_proj", "lm_head"], 4, 8.0, 0.5)).double().eval()
    for name, parameter in network.named_parameters():
        if name.endswith("adapter.up.weight"):
            nn.init.normal_(parameter)
    tokens = torch.arange(32).reshape(2, 16)
    separate = network(input_ids=tokens).logits
    names = [name for name, _ in tiny_llama.network().named_parameters()]
    assert [name for name, _ in merged(network).named_parameters()] == names
    assert not is_adapted(network)
    torch.testing.assert_close(network(input_ids=tokens).logits, separate, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(separate, tiny_llama.network().double()(input_ids=tokens).logits)


def other_weights(network: Callable[[], nn.Module]) -> nn.Module:
    made = network()
    with torch.no_grad():
        next(made.parameters()).mul_(2.0)
    return made


def of_other_weights(saved: str, folder: Path) -> str:
    tiny_llama.network = partial(other_weights, tiny_llama.network)  # the configuration has the same network
    try:
        train(lora(DDP, 1, resume=saved), folder)
    except ConfigError as error:
        return str(error)
    return "it trained"


def test_adapters_of_other_frozen_weights(tmp_path: Path) -> None:
    toy.fork_ranks(partial(halves, DDP, 1), tmp_path / "first", ranks=1)
    saved = str(tmp_path / "first" / "checkpoint")
    (said,) = toy.fork_ranks(partial(of_other_weights, saved), tmp_path / "other", ranks=1)
    assert said.startswith("the adapters of the checkpoint were trained with other frozen weights\n")


def test_an_unknown_layer() -> None:
    with pytest.raises(ConfigError) as refused:
        adapted(tiny_llama.network(), Adapter(["query"], 4, 8.0, 0.0))
    assert str(refused.value) == (
        "the network has no such linear layer\n"
        "  where:   config.yaml\n"
        "  key:     adapter.modules\n"
        "  given:   query\n"
        "  allowed: down_proj, gate_proj, k_proj, lm_head, o_proj, q_proj, up_proj, v_proj"
    )
