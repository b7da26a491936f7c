"""Every strategy trains the same network on the same samples to the same numbers, on two and on four real ranks."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import tiny_llama
import torch
import toy

from flagperf.contract.perflog import PerfLog
from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints.files import SingleRank, newest_intact, save_folder
from flagperf.trainer.loop.finish import finished
from flagperf.trainer.loop.training import Training
from flagperf.trainer.pytorch.engine import TorchEngine
from flagperf.trainer.pytorch.parts import Parts, build_parts
from flagperf.trainer.pytorch.ranks import World

pytestmark = [
    pytest.mark.filterwarnings("error:FSDP2-wrapped module:UserWarning"),  # that its output is a view
    pytest.mark.filterwarnings("ignore:For backward hooks:UserWarning"),  # of what counts collectives
]
STEPS, GLOBAL_BATCH, ACCUMULATION, EVALUATED = 10, 16, 2, 9
SHARDED = "flagperf.trainer.pytorch.parallel.Sharded"
EQUAL = 1e-5


def mesh(dp_replicate: int = 1, dp_shard: int = 1, tp: int = 1) -> dict[str, int]:
    return {"dp_replicate": dp_replicate, "dp_shard": dp_shard, "tp": tp}


def sharded(**options: Any) -> dict[str, Any]:
    sides = {side: options.pop(side, 1) for side in ("dp_replicate", "dp_shard", "tp")}
    return {"_target_": SHARDED, "mesh": sides, "blocks": "model.layers.*", **options}


DDP = {"_target_": None, "mesh": mesh(dp_replicate=-1)}
WHOLE = {"train_batch_size": GLOBAL_BATCH, "gradient_accumulation_steps": 1}  # one rank, one batch: nothing is split
QUICK: dict[str, tuple[int, dict[str, Any]]] = {  # name → ranks, and how they share the work
    "ddp": (2, DDP),
    "shard": (2, sharded(dp_shard=-1)),
    "tp, sequences and losses": (2, sharded(tp=2, sequence_parallel=True, loss_parallel=True)),
}
SLOW: dict[str, tuple[int, dict[str, Any]]] = {
    "tp": (2, sharded(tp=2)),
    "tp x shard": (4, sharded(dp_shard=-1, tp=2)),
    "replicate x shard": (4, sharded(dp_replicate=2, dp_shard=2)),
    "shard, gathered ahead": (2, sharded(dp_shard=-1, prefetch=2)),
    "shard, kept after forward": (2, sharded(dp_shard=2, reshard_after_forward=False, blocks=["LlamaDecoderLayer"])),
    "replicate": (2, sharded(dp_replicate=2)),
    "shard over four": (4, sharded(dp_shard=4)),
    "tp x replicate": (4, sharded(dp_replicate=2, tp=2)),
    "tp x shard, sequences": (4, sharded(dp_shard=2, tp=2, sequence_parallel=True)),
    "tp x replicate, losses": (4, sharded(dp_replicate=2, tp=2, loss_parallel=True)),
}
MESHES = {**QUICK, **SLOW}


class Told(NamedTuple):
    """What a training told of a rank, and what it left there."""

    losses: list[float]
    norms: list[float]
    evaluated: list[float]
    parameters: dict[str, Any]  # whole, as arrays
    held: int  # bytes of parameters and optimizer on this rank
    finished: Mapping[str, Any]


Trained = dict[str, list[Told]]


def configuration(parallel: Mapping[str, Any], ranks: int, **settings: Any) -> dict[str, Any]:
    """Ten steps of sixteen rows, in two micro steps, clipped; uneven shares are evaluated."""
    data_ranks = ranks // parallel["mesh"]["tp"]
    return toy.config(
        **{
            "parallel": dict(parallel),
            "nproc": ranks,
            "train_batch_size": GLOBAL_BATCH // ACCUMULATION // data_ranks,
            "gradient_accumulation_steps": ACCUMULATION,
            "eval_batch_size": 2,
            "eval_interval_steps": STEPS // 2,
            "max_epochs": None,
            "max_steps": STEPS,
            "clip_grad": 0.5,
            "initialisation": "by_parameter",
            "network": tiny_llama.node("network"),
            "task": tiny_llama.node("NextToken"),
            "optimizer": {"_target_": "torch.optim.AdamW", "lr": 0.01, "eps": 1e-4},
            "train_data": tiny_llama.node("Tokens", count=160),
            "eval_data": tiny_llama.node("Tokens", count=EVALUATED, seed=5),
            **settings,
        }
    )


def train(config: Mapping[str, Any], folder: Path) -> Told:
    """One training on this rank."""
    path = folder / f"log{len(list(folder.glob('log*')))}"
    with path.open("wb") as file:
        perflog, parts = PerfLog(0, file.fileno()), build_parts(config)
        engine = TorchEngine(parts)
        told = finished(engine, Training(engine, perflog).run(), 0.0)
    events = toy.read_log(path)
    norms = [value["grad_norm"] for value in toy.values(events, "STEP_END")]
    evaluated = [value[name] for value in toy.values(events, "EVALUATE") for name in ("loss", "count")]
    return Told(toy.losses(events), norms, evaluated, whole(parts), held(parts), told)


def whole(parts: Parts) -> dict[str, Any]:
    """The parameters, gathered from all ranks."""
    gathered = ((name, parameter.detach()) for name, parameter in parts.network.named_parameters())
    return {name: (one.full_tensor() if hasattr(one, "full_tensor") else one).numpy() for name, one in gathered}


def held(parts: Parts) -> int:
    """Bytes of parameters and of the optimizer's state that lie on this rank; its counts of steps are left out."""
    states = [value for state in parts.optimizer.state.values() for value in state.values() if value.dim()]
    tensors = [*parts.network.parameters(), *states]
    return sum(one.to_local().nbytes if hasattr(one, "to_local") else one.nbytes for one in tensors)


def train_all(names: list[str], folder: Path) -> dict[str, Told]:
    """One training after the other on this rank: starting ranks costs more than a training."""
    return {name: train(configuration(MESHES[name][1], MESHES[name][0]), folder) for name in names}


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """What every rank would import otherwise, each for itself."""
    for module in (
        "torch.distributed.fsdp",
        "transformers.models.llama.modeling_llama",
        "flagperf.trainer.pytorch.parallel.saved",
        "flagperf.trainer.pytorch.parallel.tensors",
    ):
        importlib.import_module(module)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The same training on one rank, in a process of its own, each step from one batch."""
    (told,) = toy.fork_ranks(partial(train, configuration(DDP, 1, **WHOLE)), tmp_path_factory.mktemp("alone"), ranks=1)
    return told


@pytest.fixture(scope="module", params=["quick", pytest.param("slow", marks=pytest.mark.slow)])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Name of a mesh → what each of its ranks told."""
    found: Trained = {}
    for ranks in (2, 4):
        names = [name for name, (size, _) in {"quick": QUICK, "slow": SLOW}[request.param].items() if size == ranks]
        told = toy.fork_ranks(partial(train_all, names), tmp_path_factory.mktemp(f"ranks{ranks}"), ranks=ranks)
        found |= {name: [of_rank[name] for of_rank in told] for name in names}
    return found


def test_equal_one_process(trained: Trained, alone: Told) -> None:
    for name, ranks in trained.items():
        for told in ranks:
            assert len(told.losses) == STEPS
            assert told.losses == pytest.approx(alone.losses, rel=EQUAL), name
            assert told.norms == pytest.approx(alone.norms, rel=EQUAL), name
            assert told.evaluated == pytest.approx(alone.evaluated, rel=EQUAL), name
            assert told.evaluated[1::2] == [EVALUATED] * 2, name
            check_parameters(told, alone, name)


def check_parameters(told: Told, wanted: Told, name: str) -> None:
    assert told.parameters.keys() == wanted.parameters.keys()
    for key, parameter in told.parameters.items():
        numpy.testing.assert_allclose(
            parameter, wanted.parameters[key], rtol=EQUAL, atol=EQUAL, err_msg=f"{name}: {key}"
        )


def test_figures_are_those_of_the_job(trained: Trained, alone: Told) -> None:
    keys = ("num_trained_samples", "num_trained_units", "global_samples", "parameters", "example_flops")
    for name, ranks in trained.items():
        for told in ranks:
            assert [told.finished[key] for key in keys] == [alone.finished[key] for key in keys], name


PARTS = {  # name of a mesh → which part of the parameters each rank holds
    "ddp": [0, 0],
    "shard": [0, 1],
    "shard, gathered ahead": [0, 1],
    "shard, kept after forward": [0, 1],
    "replicate": [0, 0],
    "tp": [0, 1],
    "tp, sequences and losses": [0, 1],
    "shard over four": [0, 1, 2, 3],
    "replicate x shard": [0, 1, 0, 1],
    "tp x shard": [0, 1, 2, 3],
    "tp x replicate": [0, 1, 0, 1],
    "tp x shard, sequences": [0, 1, 2, 3],
    "tp x replicate, losses": [0, 1, 0, 1],
}


def test_checksums_are_equal_in_each_group(trained: Trained) -> None:
    for name, told in trained.items():
        ranks = told[0].finished["ranks"]
        assert [rank["parameters_group"] for rank in ranks] == PARTS[name], name
        sums = {(rank["parameters_group"], rank["parameters_checksum"]) for rank in ranks}
        assert len(sums) == len({checksum for _, checksum in sums}) == len(set(PARTS[name])), name


def test_memory_falls_with_the_shards(trained: Trained, alone: Told) -> None:
    """AdamW keeps two numbers beside each parameter, and all sizes of this network can be divided by four."""
    assert alone.held == 3 * 4 * alone.finished["parameters"]
    for name, told in trained.items():
        sides = MESHES[name][1]["mesh"]
        if sides["tp"] == 1:
            shards = len(set(PARTS[name]))
            assert [of_rank.held for of_rank in told] == [alone.held // shards] * len(told), name


# ---------------------------------------------------------------- an evaluation gathers a block at a time


class Watched(tiny_llama.NextToken):
    """Its `count` is the largest number of blocks that lay whole on this rank between two batches."""

    metrics = ("loss", "count")

    def __init__(self, one_call_per_batch: bool) -> None:
        self.one_call_per_batch = one_call_per_batch

    def evaluate(self, network: Any, batches: Any, device: torch.device) -> dict[str, float]:
        wholes: list[int] = []

        def watched() -> Any:
            for batch in batches:
                yield batch
                weights = [layer.mlp.up_proj.weight for layer in network.model.layers]
                wholes.append(sum(not hasattr(weight, "to_local") for weight in weights))

        return {**super().evaluate(network, watched(), device), "count": float(max(wholes))}


def evaluated_blocks(folder: Path) -> list[float]:
    tasks = [{"_target_": "test_parallel.Watched", "one_call_per_batch": once} for once in (True, False)]
    short: Mapping[str, Any] = {"max_steps": 1, "eval_interval_steps": 1}
    return [train(configuration(sharded(dp_shard=2), 2, task=task, **short), folder).evaluated[-1] for task in tasks]


@pytest.mark.slow
def test_an_evaluation_gathers_a_block_at_a_time(tmp_path: Path) -> None:
    """Both blocks lie whole on each rank where a task calls the network otherwise than once for each batch."""
    assert toy.fork_ranks(evaluated_blocks, tmp_path) == [[0, 2]] * 2


# ---------------------------------------------------------------- resumed under the same mesh, and under others

RESUMED = {
    "the same mesh": sharded(dp_replicate=2, dp_shard=2),
    "more shards": sharded(dp_shard=4),
    "layers computed together": sharded(dp_shard=2, tp=2),
}


def train_halves(first: dict[str, Any], others: Mapping[str, dict[str, Any]], folder: Path) -> dict[str, Told]:
    """The first half of a training, then the other half in several ways, each from the checkpoint of the first.

    The checkpoint lies where all ranks see it.
    """
    os.environ["FLAGPERF_CHECKPOINT_DIR"] = saved = str(folder.parent / "checkpoint")
    train(first, folder)
    return {name: train({**config, "resume": saved}, folder) for name, config in others.items()}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Told]]]:
    """Where the checkpoints lie, and what each rank told of each mesh."""
    folder, half = tmp_path_factory.mktemp("resumed"), STEPS // 2
    in_background = {"checkpoint_freq": half, "checkpoint_in_background": True}  # written during two more steps
    first = configuration(RESUMED["the same mesh"], 4, max_steps=half + 2, **in_background)
    others = {name: configuration(given, 4) for name, given in RESUMED.items()}
    return folder / "checkpoint", toy.fork_ranks(partial(train_halves, first, others), folder, ranks=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_resumed_equals_one_process(name: str, resumed: tuple[Path, list[dict[str, Told]]], alone: Told) -> None:
    for told in (of_rank[name] for of_rank in resumed[1]):
        assert told.finished["resumed_from_step"] == STEPS // 2
        assert told.losses == pytest.approx(alone.losses[STEPS // 2 :], rel=EQUAL)
        assert told.norms == pytest.approx(alone.norms[STEPS // 2 :], rel=EQUAL)
        check_parameters(told, alone, name)


@pytest.mark.slow
def test_a_damaged_part_is_found(resumed: tuple[Path, list[dict[str, Told]]], tmp_path: Path) -> None:
    folder = shutil.copytree(resumed[0], tmp_path / "checkpoint")
    name = f"step{STEPS // 2:09}.dcp"
    assert newest_intact(folder, SingleRank()).path.name == name
    (part,) = folder.glob("*/__3_0.distcp")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ConfigError, match=f"content of {name}/__3_0.distcp is not that of its hash"):
        newest_intact(folder, SingleRank())
    part.unlink()
    with pytest.raises(ConfigError, match=f"{name}/__3_0.distcp is missing"):
        newest_intact(folder, SingleRank())


@pytest.mark.slow
def test_another_step_is_another_training(resumed: tuple[Path, list[dict[str, Told]]], tmp_path: Path) -> None:
    """Half as many samples a step: refused before anything is read."""
    given = configuration(sharded(), 1, train_batch_size=4, resume=str(resumed[0]))
    (said,) = toy.fork_ranks(partial(refused, given), tmp_path, ranks=1)
    assert "the checkpoint belongs to another training" in said[0]
    assert "given:   8\n  allowed: 16" in said[0]


@pytest.mark.slow
def test_data_parallelism_reads_no_parts(resumed: tuple[Path, list[dict[str, Told]]], tmp_path: Path) -> None:
    given = configuration(DDP, 1, resume=str(resumed[0]))
    (said,) = toy.fork_ranks(partial(refused, given), tmp_path, ranks=1)
    assert said[0].startswith("the checkpoint was written by another strategy\n")


def refused(config: Mapping[str, Any], folder: Path) -> list[str]:
    try:
        train(config, folder)
    except ConfigError as error:
        return [str(error)]
    return ["it trained"]


# ---------------------------------------------------------------- float8


def train_in_float8(folder: Path) -> list[tuple[list[str], list[float], list[float]]]:
    """A training, and both halves of one that gathers weights in float8: formats of received parts, losses, norms."""
    from torchao.float8.fsdp_utils import WeightWithDynamicFloat8CastTensor as Weight

    received: list[str] = []
    combine = Weight.fsdp_post_all_gather

    def noted(weight: Any, parts: Any, *others: Any, **options: Any) -> Any:
        received.append(str(parts[0].dtype))
        return combine(weight, parts, *others, **options)

    Weight.fsdp_post_all_gather = noted
    os.environ["FLAGPERF_CHECKPOINT_DIR"] = saved = str(folder.parent / "checkpoint")
    block, half = "transformers.models.llama.modeling_llama.LlamaDecoderLayer", STEPS // 2
    told = []
    for changes in ({}, {"max_steps": half, "checkpoint_freq": half}, {"resume": saved}):
        recipe = "tensorwise_gathered" if changes else "tensorwise"
        config = configuration(sharded(dp_shard=2), 2, float8_modules=block, float8_recipe=recipe, **changes)
        trained = train(config, folder)
        told.append((sorted(set(received)), trained.losses, trained.norms))
    return told


@pytest.mark.slow
def test_weights_are_gathered_in_float8(tmp_path: Path) -> None:
    """The numbers are those of weights that are rounded behind the all-gather, also after a resume."""
    pytest.importorskip("torchao", reason="no torchao here")
    half = STEPS // 2
    for plain, first, second in toy.fork_ranks(train_in_float8, tmp_path):
        assert [formats for formats, _, _ in (plain, first, second)] == [[], *[["torch.float8_e4m3fn"]] * 2]
        for whole, early, later in zip(plain[1:], first[1:], second[1:], strict=True):
            assert early == pytest.approx(whole[:half], rel=EQUAL)
            assert later == pytest.approx(whole[half:], rel=EQUAL)


# ---------------------------------------------------------------- communication


def count_sharing(_: Path) -> dict[str, int]:
    """Collectives that share gradients, in an optimizer step of one micro step and in one of four."""
    from torch.distributed.tensor.debug import CommDebugMode

    counts = {}
    for micro_steps in (1, 4):
        given = configuration(sharded(dp_shard=2), 2, train_batch_size=2, gradient_accumulation_steps=micro_steps)
        engine = TorchEngine(build_parts(given))
        Training(engine, PerfLog(0, os.open(os.devnull, os.O_WRONLY)))
        engine.clock.start()
        with CommDebugMode() as comm:
            engine.step(1)
        counts[str(micro_steps)] = sum(
            number for kind, number in comm.get_comm_counts().items() if "reduce_scatter" in str(kind)
        )
    return counts


def test_gradients_are_shared_once_a_step(tmp_path: Path) -> None:
    """Two blocks and what lies in none: three times, however many micro steps there are."""
    assert toy.fork_ranks(count_sharing, tmp_path) == [{"1": 3, "4": 3}] * 2


# ---------------------------------------------------------------- one rank, half precision, tied parameters


def train_alone(folder: Path) -> list[Told]:
    """Sharded on one rank, in fp32 and in bf16."""
    return [train(configuration(sharded(), 1, precision=precision), folder) for precision in ("fp32", "amp_bf16")]


@pytest.mark.slow
def test_one_rank(tmp_path: Path, alone: Told) -> None:
    """It is a mesh of one; the policy of bf16 computes nearly the same, and keeps parameters in fp32."""
    ((exact, rounded),) = toy.fork_ranks(train_alone, tmp_path, ranks=1)
    assert exact.losses == pytest.approx(alone.losses, rel=EQUAL)
    check_parameters(exact, alone, "one rank")
    assert rounded.losses == pytest.approx(alone.losses, rel=0.03)
    assert rounded.losses != exact.losses
    assert rounded.held == exact.held == alone.held


WIDTHS = {"in_features": 8, "out_features": 3}


def tied(_: Path) -> list[Any]:
    """Whether embedding and output layer are one parameter, before and after layers were divided; what is refused."""
    parallel = sharded(tp=2)
    given = configuration(parallel, 2, network=tiny_llama.node("network", tied=True))
    network: Any = build_parts(given).network
    found = [network.lm_head.weight is network.model.embed_tokens.weight]
    uneven = {"_target_": "torch.nn.Sequential", "_args_": [{"_target_": "torch.nn.Linear", **WIDTHS}]}
    changes: list[dict[str, Any]] = [
        {"parallel": {**parallel, "plan": {"model.layers.*.self_attn": "sideways"}}},
        {"parallel": {**parallel, "plan": {"model.layer.*": "colwise"}}},
        {"network": tiny_llama.node("network", intermediate=63)},
        {"network": uneven, "parallel": {**parallel, "blocks": "0", "plan": {"0": "colwise"}}},
    ]
    return [*found, *refusals({**given, **change} for change in changes)]


def refusals(configurations: Iterable[Mapping[str, Any]]) -> list[str]:
    """The first lines of what this rank says about configurations that it refuses."""
    lines = []
    for config in configurations:
        try:
            build_parts(config)
        except ConfigError as error:
            lines.append(str(error).splitlines()[0])
    torch.distributed.barrier()  # the first rank to leave would take the others' store along
    return lines


def test_layers_that_are_divided(tmp_path: Path) -> None:
    refused = [
        "no such way to divide a layer",
        "the network has no such layer",
        "the ranks along tp cannot divide the network evenly",
        "the ranks along tp cannot divide a layer evenly",
    ]
    assert toy.fork_ranks(tied, tmp_path) == [[True, *refused]] * 2


def save_apart(own: Path) -> list[str]:
    """A checkpoint of two nodes that share no files: what this one has of it."""
    world = World(int(os.environ["RANK"]), 2, 0, 1)
    world.connect(torch.device("cpu"), "gloo", 60)
    save_folder(own / "checkpoint", 7, world, lambda path: (path / f"__{world.rank}_0.distcp").write_bytes(b"part"))
    return sorted(path.name for path in (own / "checkpoint").glob("**/*") if path.is_file())


def test_parts_of_nodes_without_shared_files_are_whole_together(tmp_path: Path) -> None:
    """The launcher brings the folders of all nodes into one."""
    hashes = "step000000007.dcp.sha256"
    assert toy.fork_ranks(save_apart, tmp_path) == [["__0_0.distcp", hashes], ["__1_0.distcp", hashes]]
    folders = [tmp_path / f"rank{rank}" / "checkpoint" for rank in range(2)]
    with pytest.raises(ConfigError, match=r"__1_0.distcp is missing"):
        newest_intact(folders[0], SingleRank())
    for folder in folders:
        shutil.copytree(folder, tmp_path / "brought", dirs_exist_ok=True)
    assert newest_intact(tmp_path / "brought", SingleRank()) == (tmp_path / "brought" / "step000000007.dcp", ())
