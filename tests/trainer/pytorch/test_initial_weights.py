"""Initial weights by parameter: the same on every mesh, and a rank makes no more than its parts of them."""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_llama
import torch
import toy
from test_parallel import DDP, configuration, imported, sharded  # noqa: F401
from torch import nn

from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.initial import InitialWeights, Recording
from flagperf.trainer.pytorch.parts import build_parts

MESHES: dict[str, tuple[int, dict[str, Any]]] = {  # name → ranks, and how they share the work
    "one process": (1, DDP),
    "ddp": (2, DDP),
    "shard": (2, sharded(dp_shard=2)),
    "tp": (2, sharded(tp=2)),
    "tp x shard": (4, sharded(dp_shard=2, tp=2)),
    "replicate x shard": (4, sharded(dp_replicate=2, dp_shard=2)),
}
SETTINGS: dict[str, dict[str, Any]] = {  # what a network begins with → settings
    "drawn": {},
    "drawn, tied": {"network": tiny_llama.node("network", tied=True)},
    "read": {"init_checkpoint": "start.pt"},
    "read from a folder": {"init_checkpoint": "start"},
    "averaged": {"ema": {"decay": 0.5, "every": 1}},
}


def digests(given: Mapping[str, Any], folder: Path) -> dict[str, dict[str, str]]:
    """Mesh and settings → name → the bytes of the whole parameter, of the evaluated network."""
    made = {}
    for name, (ranks, parallel) in given.items():
        for case, settings in SETTINGS.items():
            config = configuration(parallel, ranks, initialisation="by_parameter", **settings)
            if "init_checkpoint" in settings:
                config["init_checkpoint"] = str(folder.parent.parent / settings["init_checkpoint"])
            parameters: Any = build_parts(config).evaluated.named_parameters()
            wholes = ((key, one.full_tensor() if hasattr(one, "full_tensor") else one) for key, one in parameters)
            made[f"{name}, {case}"] = {
                key: hashlib.sha256(one.detach().numpy().tobytes()).hexdigest() for key, one in wholes
            }
    torch.distributed.barrier() if torch.distributed.is_initialized() else None
    return made


@pytest.mark.parametrize("sizes", [(1, 2), pytest.param((1, 4), marks=pytest.mark.slow)], ids=str)
def test_every_mesh_begins_with_the_same_bytes(tmp_path: Path, sizes: tuple[int, int]) -> None:
    torch.manual_seed(5)
    network: Any = tiny_llama.network()
    torch.save(network.state_dict(), tmp_path / "start.pt")
    network.save_pretrained(tmp_path / "start", max_shard_size=40_000)
    made = {}
    for ranks in sizes:
        given = {name: mesh for name, mesh in MESHES.items() if mesh[0] == ranks}
        told = toy.fork_ranks(partial(digests, given), tmp_path / str(ranks), ranks=ranks)
        assert told == [told[0]] * ranks
        made.update(told[0])
    for case in SETTINGS:
        for name in (name for name, (ranks, _) in MESHES.items() if ranks in sizes):
            assert made[f"{name}, {case}"] == made[f"one process, {case}"], f"{name}, {case}"
    drawn, tied, read, read_from_folder, averaged = (made[f"one process, {case}"] for case in SETTINGS)
    assert drawn == averaged
    assert read == read_from_folder
    assert drawn.keys() == read.keys() == tied.keys() | {"lm_head.weight"}
    assert {key for key in drawn if drawn[key] == read[key]} == {key for key in drawn if "norm" in key}
    matrices = [digest for key, digest in drawn.items() if "norm" not in key]
    assert len(matrices) == len(set(matrices))  # no two parameters begin alike


# ---------------------------------------------------------------- what can be recorded


def made(network: Any, seed: int = 0) -> tuple[nn.Module, set[str]]:
    """A network with its weights, and the names of the parameters that were recorded."""
    torch.manual_seed(0)
    with Recording() as recording:
        built = network()
    fills = recording.parameters(built)
    assert {name for name, parameter in built.named_parameters() if parameter.is_meta} == set(fills)
    InitialWeights(fills, seed).fill(built, torch.device("cpu"))
    return built, set(fills)


class Read(nn.Module):
    """A parameter that is read while it is made, and a buffer that is filled in place."""

    def __init__(self) -> None:
        super().__init__()
        self.scaled = nn.Parameter(torch.empty(6, 4).normal_())
        with torch.no_grad():
            self.scaled /= self.scaled.norm()
        self.register_buffer("ones", torch.empty(3).fill_(1))


def padded() -> nn.Module:
    """An embedding with a row of zeros, as transformers makes them."""
    network = nn.Embedding(40, 16)
    nn.init.normal_(network.weight, std=0.02)
    with torch.no_grad():
        network.weight[7].zero_()
    return network


def test_an_embedding_keeps_its_row_of_zeros() -> None:
    network, recorded = made(padded)
    weight: torch.Tensor = network.weight.detach()  # type: ignore[union-attr,operator]
    assert recorded == {"weight"}
    assert weight.abs().sum(1).eq(0).nonzero().flatten().tolist() == [7]
    assert float(weight.std()) == pytest.approx(0.02, rel=0.1)


def test_what_is_read_is_made_at_once() -> None:
    network, recorded = made(Read)
    assert recorded == set()
    assert network.scaled.detach().norm().item() == pytest.approx(1)  # type: ignore[operator,union-attr]
    assert network.ones.tolist() == [1, 1, 1]  # type: ignore[operator,union-attr]


@pytest.mark.parametrize(
    ("seed", "same"), [pytest.param(0, True, id="the same seed"), pytest.param(1, False, id="another seed")]
)
def test_the_seed_decides(seed: int, same: bool) -> None:
    first, second = made(lambda: nn.Linear(700, 500))[0], made(lambda: nn.Linear(700, 500), seed)[0]
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name)) == same
        limit = 700**-0.5  # of nn.Linear, in two pieces of the weight
        assert parameter.detach().abs().max().item() == pytest.approx(limit, rel=0.02)


# ---------------------------------------------------------------- memory

WIDTH, BLOCKS, RANKS = 2048, 12, 8
MIB = 1 << 20
BLOCK = WIDTH * WIDTH * 4
SLACK = 8 * MIB  # of a piece, and of the allocator


def blocks(width: int) -> nn.Module:
    """Blocks of one matrix each: of 16 MiB, if they are WIDTH wide."""
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(BLOCKS)))


def peak_of_a_rank(initialisation: str, _: Path) -> int:
    """Bytes by which the memory of rank 0 of a group that sends nothing grows at most, while its parts are made.

    A small network is divided before: the first division imports modules, and maps pages of torch's libraries into this
    process, as many as the kernel's page cache offers at the moment.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    parallel = sharded(dp_shard=RANKS, blocks=["Linear"])
    small, wide = (
        configuration(parallel, RANKS, network={"_target_": "test_initial_weights.blocks", "width": width})
        for width in (WIDTH // 8, WIDTH)
    )
    torch.distributed.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    divided(small, initialisation)
    return grown(lambda: divided(wide, initialisation))


def divided(config: Mapping[str, Any], initialisation: str) -> Any:
    from flagperf.contract.settings import Settings
    from flagperf.trainer.pytorch.parallel import make_strategy
    from flagperf.trainer.pytorch.parts import divided_network
    from flagperf.trainer.pytorch.ranks import World
    from flagperf.trainer.pytorch.task import Task

    config = {**config, "initialisation": initialisation}
    settings, world = Settings.read(config), World(0, RANKS, 0, RANKS)
    strategy = make_strategy(config, settings, world)
    return divided_network(config, settings, Task(), strategy, torch.device("cpu"), world)


def grown(function: Any) -> int:
    """Bytes by which the peak of this process exceeds its memory before a call."""

    def memory(name: str) -> int:
        (kib,) = re.findall(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
        return int(kib) * 1024

    ctypes.CDLL(None).malloc_trim(0)  # free memory of earlier tests, which a rank would use before it grows
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    kept = function()
    del kept
    return memory("VmHWM") - before


def test_a_rank_needs_its_parts_and_a_block(tmp_path: Path) -> None:
    """The whole network is 192 MiB, and the parts of a rank are an eighth of it."""
    limit = BLOCKS * BLOCK // RANKS + BLOCK + SLACK
    (grew,) = toy.fork_ranks(partial(peak_of_a_rank, "by_parameter"), tmp_path, ranks=1)
    assert grew <= limit
    (whole,) = toy.fork_ranks(partial(peak_of_a_rank, "in_order"), tmp_path, ranks=1)
    assert whole >= BLOCKS * BLOCK - SLACK > 3 * limit  # the same measurement sees a network that is made whole


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    """Each rank refuses them before it reads any."""
    weights = tiny_llama.network().state_dict()
    weights["model.norm.weight"] = torch.zeros(3)
    weights["model.other"] = weights.pop("lm_head.weight")
    path = tmp_path / "start.pt"
    torch.save(weights, path)
    (said,) = toy.fork_ranks(partial(refused, str(path)), tmp_path, ranks=1)
    assert said == [
        "the weights do not fit the network",
        f"  where:   {path}",
        "  key:     init_checkpoint",
        "  given:   missing: lm_head.weight; not in the network: model.other; "
        "shape of model.norm.weight: [3], the network has [32]",
        "  do:      use the checkpoint that belongs to this case and size",
    ]


def refused(path: str, _: Path) -> list[str]:
    try:
        build_parts(configuration(sharded(), 1, initialisation="by_parameter", init_checkpoint=path))
    except ConfigError as error:
        return str(error).splitlines()
    return ["it trained"]
