"""Each side of the mesh, and each pair of sides, trains to the numbers of one process over twenty steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tiny_llama
import toy
from test_parallel import (
    DDP,
    EQUAL,
    EVALUATED,
    SHARDED,
    WHOLE,
    Told,
    check_parameters,
    configuration,
    refusals,
    train,
    train_halves,
)

STEPS, SAMPLES, MICRO_STEPS = 20, 16, 2
DATA = {"length": 17}
TRAINING = {
    "task": tiny_llama.node("NextOfPair"),
    "train_data": tiny_llama.node("Tokens", count=160, **DATA),
    "eval_data": tiny_llama.node("Tokens", count=EVALUATED, seed=5, **DATA),
    "max_steps": STEPS,
    "eval_interval_steps": STEPS // 2,
    "optimizer": {"_target_": "torch.optim.AdamW", "lr": 0.002, "eps": 1e-4},  # a higher rate makes roundings grow
}
NETWORKS = {
    "dense": tiny_llama.node("staged"),
    "documents": tiny_llama.node("separated"),
    "experts": tiny_llama.node("mixture"),
    "windows": tiny_llama.node("mixture", windows=True, balance=0.01),
}


class Division(NamedTuple):
    """Which network, and how the ranks share the work."""

    network: str
    parallel: Mapping[str, Any]

    @property
    def ranks(self) -> int:
        return max(1, math.prod(self.parallel["mesh"].values()))  # -1: all of one rank


def divided(network: str = "dense", **options: Any) -> Division:
    mesh = {side: options.pop(side, 1) for side in ("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep")}
    return Division(network, {"_target_": SHARDED, "mesh": mesh, "blocks": "model.layers.*", **options})


QUICK = {
    "cp": divided(cp=2),
    "ep": divided("experts", ep=2),
}
# The meshes of a group train in the same processes: the first use of DTensor takes longer than a training.
SLOW = {
    "one side": {
        "dp_replicate": divided(dp_replicate=2),
        "dp_shard": divided(dp_shard=2),
        "tp": divided(tp=2),
        "pp": divided(pp=2),
        "cp with windows and balance": divided("windows", cp=2),
        "cp with documents": divided("documents", cp=2),
        "pp with documents": divided("documents", pp=2),
        "tp with documents": divided("documents", tp=2, sequence_parallel=True),
    },
    "dp_replicate and another": {
        "dp_shard": divided(dp_replicate=2, dp_shard=2),
        "tp": divided(dp_replicate=2, tp=2, loss_parallel=True),
        "pp": divided(dp_replicate=2, pp=2, stages=2),
        "cp": divided(dp_replicate=2, cp=2),
        "ep": divided("experts", dp_replicate=2, ep=2),
    },
    "dp_shard and another": {
        "tp": divided(dp_shard=2, tp=2, sequence_parallel=True),
        "pp": divided(dp_shard=2, pp=2),
        "cp": divided(dp_shard=2, cp=2),
        "ep": divided("experts", dp_shard=2, ep=2),
    },
    "tp and another": {
        "pp": divided(tp=2, pp=2, sequence_parallel=True, loss_parallel=True),
        "pp, interleaved": divided(tp=2, pp=2, stages=2),
        "cp": divided(tp=2, cp=2),
        "cp, sequences and losses": divided(tp=2, cp=2, sequence_parallel=True, loss_parallel=True),
    },
    "cp and another": {
        "pp": divided(pp=2, cp=2),
        "ep": divided("experts", cp=2, ep=2),
    },
}


def config_of(division: Division, **settings: Any) -> dict[str, Any]:
    """Twenty steps of sixteen rows, in two micro steps."""
    mesh = division.parallel["mesh"]
    data_ranks = 1 if "cp" not in mesh else math.prod(mesh[side] for side in ("dp_replicate", "dp_shard", "ep"))
    sizes = {"train_batch_size": SAMPLES // MICRO_STEPS // data_ranks, "gradient_accumulation_steps": MICRO_STEPS}
    own = {"parallel": dict(division.parallel), "nproc": division.ranks, "network": NETWORKS[division.network]}
    return {**configuration(DDP, 1, **TRAINING), **own, **sizes, **settings}


def train_all(meshes: Mapping[str, Division], folder: Path) -> dict[str, Told]:
    """One training after the other on this rank: starting ranks costs more than a training."""
    return {name: train(config_of(division), folder) for name, division in meshes.items()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Told]:
    """The training of a network on one rank, a step from one batch. The balance of experts is of a micro batch."""

    @cache
    def train_alone(network: str) -> Told:
        config = config_of(Division(network, DDP), **({} if network == "windows" else WHOLE))
        (told,) = toy.fork_ranks(partial(train, config), tmp_path_factory.mktemp("alone"), ranks=1)
        return told  # type: ignore[no-any-return]

    return train_alone


def check(ranks: list[Told], alone: Told, name: str, first: int = 0) -> None:
    """Losses and norms of each step from the first, metrics, and the parameters that the ranks hold together."""
    names: set[str] = set()
    for told in ranks:
        assert told.losses == pytest.approx(alone.losses[first:], rel=EQUAL), name
        assert told.norms == pytest.approx(alone.norms[first:], rel=EQUAL), name
        assert told.evaluated[-2:] == pytest.approx(alone.evaluated[-2:], rel=EQUAL), name
        assert told.evaluated[-1] == EVALUATED, name
        held = alone._replace(parameters={key: alone.parameters[key] for key in told.parameters})
        check_parameters(told, held, name)
        names.update(told.parameters)
    assert names == alone.parameters.keys(), name


@pytest.mark.parametrize(
    "meshes",
    [
        pytest.param(QUICK, id="quick"),
        *(pytest.param(SLOW[name], marks=pytest.mark.slow, id=name) for name in SLOW),
    ],
)
def test_equal_one_process(meshes: dict[str, Division], alone: Callable[[str], Told], tmp_path: Path) -> None:
    (ranks,) = {division.ranks for division in meshes.values()}
    told = toy.fork_ranks(partial(train_all, meshes), tmp_path, ranks=ranks)
    for name, division in meshes.items():
        of_ranks, wanted = [of_rank[name] for of_rank in told], alone(division.network)
        check(of_ranks, wanted, name)
        for key in ("num_trained_samples", "num_trained_units", "parameters", "example_flops"):
            assert {one.finished[key] for one in of_ranks} == {wanted.finished[key]}, (name, key)


# ---------------------------------------------------------------- resumed under other meshes

RESUMED = {
    "the same": divided("experts", ep=2),
    "cp": divided("experts", cp=2),
    "shard": divided("experts", dp_shard=2),
}


@pytest.mark.slow
def test_divided_experts_are_resumed_under_another_mesh(alone: Callable[[str], Told], tmp_path: Path) -> None:
    first = config_of(RESUMED["the same"], max_steps=STEPS // 2, checkpoint_freq=STEPS // 2)
    others = {name: config_of(division) for name, division in RESUMED.items()}
    told = toy.fork_ranks(partial(train_halves, first, others), tmp_path, ranks=2)
    for name in RESUMED:
        check([of_rank[name] for of_rank in told], alone("experts"), name, STEPS // 2)


# ---------------------------------------------------------------- what the ranks refuse


def refused(_: Path) -> list[str]:
    """The first lines of what the ranks say about networks that they cannot divide."""
    networks = (
        (divided(cp=2), tiny_llama.node("network")),
        (divided(ep=2), tiny_llama.node("staged")),
        (divided("experts", ep=2), tiny_llama.node("mixture", experts=3)),
    )
    return refusals(config_of(division, network=network) for division, network in networks)


def test_networks_that_cannot_be_divided(tmp_path: Path) -> None:
    expected = [
        "this network cannot compute parts of sequences",
        "the network has no experts",
        "the ranks along ep cannot divide the experts evenly",
    ]
    assert toy.fork_ranks(refused, tmp_path) == [expected] * 2
