"""Pipelines train the language models' network to the numbers of one process, and go on under another mesh."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_llama
import torch
import toy
from test_meshes import check
from test_parallel import DDP, EVALUATED, SHARDED, Told, configuration, train, train_halves
from torch import nn

from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.parallel.stages import Passed, part_of, stage_of_modules
from flagperf.trainer.pytorch.parts import build_parts

STEPS, SAMPLES, MICRO_STEPS = 4, 16, 4
TRAINING = {
    "network": tiny_llama.node("staged"),
    "task": tiny_llama.node("NextOfPair"),
    "train_data": tiny_llama.node("Tokens", count=160, length=17),
    "eval_data": tiny_llama.node("Tokens", count=EVALUATED, seed=5, length=17),
    "max_steps": STEPS,
    "eval_interval_steps": STEPS // 2,
}
Parallel = Mapping[str, Any]


def divided(*, stages: int = 1, sequence_parallel: bool = False, loss_parallel: bool = False, **sides: int) -> Parallel:
    arguments = {"stages": stages, "sequence_parallel": sequence_parallel, "loss_parallel": loss_parallel}
    mesh = {"dp_replicate": 1, "dp_shard": 1, "tp": 1, **sides}
    return {"_target_": SHARDED, "mesh": mesh, "blocks": "model.layers.*", **arguments}


MESHES: dict[str, tuple[int, Parallel]] = {  # name → ranks, and how they share the work; pairs: test_meshes.py
    "1F1B": (2, divided(pp=2)),
    "interleaved": (2, divided(pp=2, stages=2)),
}


def config_of(parallel: Parallel, ranks: int, **settings: Any) -> dict[str, Any]:
    """Four steps of sixteen rows, in four micro steps."""
    data_ranks = parallel["mesh"]["dp_replicate"] * parallel["mesh"]["dp_shard"] if ranks > 1 else 1
    sizes = {"train_batch_size": SAMPLES // MICRO_STEPS // data_ranks, "gradient_accumulation_steps": MICRO_STEPS}
    return {**configuration(DDP, 1, **TRAINING), "parallel": dict(parallel), "nproc": ranks, **sizes, **settings}


def train_all(names: list[str], folder: Path) -> dict[str, Told]:
    return {name: train(config_of(*reversed(MESHES[name])), folder) for name in names}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Told:
    (told,) = toy.fork_ranks(partial(train, config_of(DDP, 1)), tmp_path_factory.mktemp("alone"), ranks=1)
    return told


def test_equal_one_process(alone: Told, tmp_path: Path) -> None:
    told = toy.fork_ranks(partial(train_all, list(MESHES)), tmp_path)
    for name, (_, parallel) in MESHES.items():
        of_ranks = [of_rank[name] for of_rank in told]
        check(of_ranks, alone, name)
        assert of_ranks[0].finished["pipeline_bubble"] == 1 / (parallel["stages"] * MICRO_STEPS + 1)


# ---------------------------------------------------------------- resumed under other meshes

RESUMED = {"other stages": divided(pp=2, stages=2), "no pipeline": divided(dp_shard=2)}


@pytest.mark.slow
def test_a_pipeline_is_resumed_under_another_mesh(alone: Told, tmp_path: Path) -> None:
    first = config_of(divided(pp=2), 2, max_steps=STEPS // 2, checkpoint_freq=STEPS // 2)
    others = {name: config_of(given, 2) for name, given in RESUMED.items()}
    told = toy.fork_ranks(partial(train_halves, first, others), tmp_path, ranks=2)
    for name in RESUMED:
        check([of_rank[name] for of_rank in told], alone, name, STEPS // 2)


# ---------------------------------------------------------------- initial weights


def initial(given: list[dict[str, Any]], folder: Path) -> list[dict[str, bytes]]:  # noqa: ARG001
    """For each configuration, name → bytes of the parameters of this rank."""
    told = [
        {
            name: (one.full_tensor() if hasattr(one, "full_tensor") else one).detach().numpy().tobytes()
            for name, one in build_parts(config).network.named_parameters()  # type: ignore[attr-defined]
        }
        for config in given
    ]
    torch.distributed.barrier() if torch.distributed.is_initialized() else None  # rank 0 has the store of all
    return told


def test_stages_begin_as_one_process(tmp_path: Path) -> None:
    """Weights that each parameter draws from its own seeds, and weights from a file with those of all stages."""
    torch.save(tiny_llama.staged().state_dict(), path := tmp_path / "start.pt")
    settings = [{"initialisation": "by_parameter", **more} for more in ({}, {"init_checkpoint": str(path)})]
    alone, divided_over_two = (
        toy.fork_ranks(
            partial(initial, [config_of(parallel, ranks, **own) for own in settings]),
            tmp_path / str(ranks),
            ranks=ranks,
        )
        for ranks, parallel in ((1, DDP), (2, divided(pp=2)))
    )
    for whole, *stages in zip(*alone, *divided_over_two, strict=True):
        first, last = (set(stage) for stage in stages)
        assert (first & last, first | last) == (set(), set(whole))
        assert {name: value for stage in stages for name, value in stage.items()} == whole


# ---------------------------------------------------------------- which modules a stage has


class Chain(nn.Module):
    """An embedding, blocks and an output layer."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.first = nn.Embedding(4, 2)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(2, 2)) for _ in range(blocks))
        self.last = nn.Linear(2, 4)


def test_stages_have_whole_blocks() -> None:
    network = Chain(5)
    stages = stage_of_modules(network, set(network.blocks), 3)
    assert [stages[block] for block in network.blocks] == [0, 0, 1, 1, 2]
    assert (stages[network.first], stages[network.last]) == (0, 2)
    middle: Any = part_of(network, stages, [1])
    assert [name for name, _ in middle.named_parameters()] == [
        f"blocks.{number}.0.{kind}" for number in (2, 3) for kind in ("weight", "bias")
    ]
    assert isinstance(middle.first, Passed)
    assert middle.blocks[2] is network.blocks[2]
    assert isinstance(network.first, nn.Embedding)  # the network itself stays as it was


def test_a_parameter_of_two_stages() -> None:
    network = Chain(2)
    network.last.weight = network.first.weight
    with pytest.raises(ConfigError, match=r"two stages of the pipeline need the same parameter[\s\S]*first and last"):
        stage_of_modules(network, set(network.blocks), 2)


def test_more_stages_than_blocks() -> None:
    with pytest.raises(ConfigError, match=r"more stages than the network has blocks[\s\S]*at most 2"):
        stage_of_modules(network := Chain(2), set(network.blocks), 3)
