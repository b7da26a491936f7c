"""Strategies refuse what they cannot do, before the first step; blocks are found, and give no views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import toy
from torch import nn

from flagperf.contract.mesh import Mesh
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch import by_version
from flagperf.trainer.pytorch.parallel import make_strategy
from flagperf.trainer.pytorch.parallel.blocks import find_blocks, give_no_views
from flagperf.trainer.pytorch.ranks import World

SHARDED = "flagperf.trainer.pytorch.parallel.Sharded"
ONE = {"dp_replicate": 1, "dp_shard": 1, "tp": 1}


def refusal(config: Mapping[str, Any], world: World) -> str:
    with pytest.raises(ConfigError) as caught:
        make_strategy(config, Settings.read(config), world)
    return str(caught.value)


@pytest.mark.parametrize(
    ("parallel", "said"),
    [
        pytest.param(
            {"_target_": SHARDED, "mesh": ONE, "bloks": "a"}, "unexpected keyword argument 'bloks'", id="a slip"
        ),
        pytest.param({"_target_": "toy.network", "mesh": ONE}, "cannot be made", id="no strategy"),
        pytest.param({"_target_": "no.such", "mesh": ONE}, "no such class or function", id="no class"),
        pytest.param(
            {"_target_": None, "mesh": {**ONE, "tp": 2}},
            "with data parallelism each rank holds the whole network",
            id="layers divided without a strategy for it",
        ),
    ],
)
def test_refused(parallel: dict[str, Any], said: str) -> None:
    world = World(0, parallel["mesh"]["tp"])
    assert said in refusal(toy.config(parallel=parallel), world)


def test_an_older_torch_has_data_parallelism_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_version, "VERSION", (2, 5))
    assert "has data parallelism only" in refusal(toy.config(parallel={"_target_": SHARDED, "mesh": ONE}), World())
    config = toy.config()
    assert make_strategy(config, Settings.read(config), World()).mesh == Mesh()


def test_blocks() -> None:
    network = nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.ReLU()), nn.Sequential(nn.Linear(1, 1)), nn.ReLU())
    first, second, last = network
    assert find_blocks(network, ["Linear"]) == [second[0], first[0]]
    assert find_blocks(network, ["*"]) == [last, second, first]
    assert find_blocks(network, ["0.*"]) == [first[1], first[0]]
    assert find_blocks(network, ["0", "Linear"]) == [second[0], first[0], first]  # what lies in another comes first
    with pytest.raises(ConfigError, match=r"no such blocks[\s\S]*given:   Block[\s\S]*Linear, ReLU, Sequential"):
        find_blocks(network, ["Block"])


def test_blocks_give_no_views() -> None:
    """Nothing is copied, gradients are the same, and what was hung onto the output stays through work in place."""
    layer, inputs, hung = nn.Linear(4, 3), torch.randn(2, 5, 4), list[str]()
    (plain := layer(inputs)).square().sum().backward()
    assert plain._base is not None
    gradient, layer.weight.grad = layer.weight.grad, None
    memory: list[int] = []
    layer.register_forward_hook(lambda _block, _inputs, output: memory.append(output.data_ptr()))
    give_no_views(layer)
    output = layer(inputs)
    assert (output._base, memory) == (None, [output.data_ptr()])
    output.register_hook(lambda _: hung.append("gathered"))
    output.mul_(1.0)
    output.square().sum().backward()
    assert (hung, torch.equal(layer.weight.grad, gradient)) == (["gathered"], True)
