"""Two real ranks under torchrun, over gloo."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import toy
from example import PYTORCH
from test_loop import gradient_descent
from torch import Tensor, device, distributed, int32, nn, no_grad
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from flagperf.contract.perflog import Event, PerfLog
from flagperf.errors import TrainingError
from flagperf.run.blame import has_followed, last_lines
from flagperf.trainer.loop.trained import Diverged
from flagperf.trainer.loop.training import Training
from flagperf.trainer.pytorch import by_version
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.engine import TorchEngine
from flagperf.trainer.pytorch.parts import build_parts
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.waits import Waits

Logs = list[list[Event]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """Two ranks, two micro steps of 16: each step sees all 64 points. 19 points to evaluate: 10 and 9."""
    settings = {"train_batch_size": 16, "gradient_accumulation_steps": 2, "max_steps": 6, "max_epochs": None}
    settings |= {"clip_grad": 0.5, "eval_batch_size": 4, "eval_interval_steps": 3, "initial_evaluation": True}
    status, logs = toy.torchrun(toy.config(**settings), tmp_path_factory.mktemp("ranks"))
    assert status == 0
    return logs


def story(events: list[Event]) -> list[str]:
    """What happened; a slow machine adds signs of life."""
    return [event.event for event in events if event.event not in ("HEARTBEAT", "WAITING")]


def test_two_ranks_equal_the_whole_batch(trained: Logs) -> None:
    losses, norms = gradient_descent(6, clip=0.5)
    for events in trained:
        assert toy.losses(events) == pytest.approx(losses, rel=1e-5)
        assert [step["grad_norm"] for step in toy.values(events, "STEP_END")] == pytest.approx(norms, rel=1e-4)


def test_every_sample_is_evaluated_once(trained: Logs) -> None:
    expected = toy.Points(19, seed=8).inputs[:, 0].double().sum().item()
    for events in trained:
        for value in (*toy.values(events, "EVALUATE"), *toy.values(events, "INIT_EVALUATION")):
            assert value["count"] == 19
            assert value["inputs"] == pytest.approx(expected, rel=1e-12)


def test_ranks_agree(trained: Logs) -> None:
    first, second = (events[-1].value for events in trained)
    assert first == second
    ranks = first["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    for key in ("parameters_checksum", "loss_checksum", "samples", "steps"):
        assert ranks[0][key] == ranks[1][key], key
    assert [event.rank for events in trained for event in events] == [0] * len(trained[0]) + [1] * len(trained[1])
    assert story(trained[0]) == story(trained[1])


def test_figures_are_of_the_whole_job(trained: Logs) -> None:
    finished = trained[0][-1].value
    ranks = finished["ranks"]
    assert [rank["samples"] for rank in ranks] == [6 * 32, 6 * 32]
    assert finished["num_trained_samples"] == finished["global_samples"] == 6 * 64
    assert finished["num_trained_units"] == 6 * 64 * 8
    assert finished["raw_train_time"] == max(rank["raw_train_time"] for rank in ranks)
    assert finished["p_whole"] == 6 * 64 * 8 / finished["raw_train_time"]
    assert finished["p_core"] == 6 * 64 * 8 / max(rank["compute_time"] for rank in ranks)
    assert finished["data_wait"] == pytest.approx(sum(rank["data_wait"] for rank in ranks) / 2)
    speeds = [step["throughput"] for step in toy.values(trained[0], "STEP_END")]
    times = [step["step_time"] for step in toy.values(trained[0], "STEP_END")]
    assert speeds == pytest.approx([64 * 8 / time for time in times])


def test_the_whole_story_is_in_the_log(trained: Logs) -> None:
    for events in trained:
        assert story(events)[:6] == [
            "SUBMIT_INFO",
            "INIT_START",
            "BUILT",
            "INIT_EVALUATION",
            "INIT_END",
            "TRAIN_START",
        ]
        submitted = events[0].value
        assert (submitted["vendor"], submitted["case"]) == ("cpu", "toy")
        assert submitted["config"] == toy.config(
            train_batch_size=16,
            gradient_accumulation_steps=2,
            max_steps=6,
            max_epochs=None,
            clip_grad=0.5,
            eval_batch_size=4,
            eval_interval_steps=3,
            initial_evaluation=True,
        )


def test_resumed_ranks_equal_uninterrupted_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a random state for each rank, in the middle of an epoch, with processes that load."""
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    settings: dict[str, Any] = {
        "max_epochs": None,
        "max_steps": 12,
        "network": toy.node("network", dropout=0.4),
        "train_data": toy.node("Points", count=90, noise=0.5),
        "num_workers": 1,
    }
    whole = toy.config(**settings)
    first = toy.config(**settings | {"max_steps": 7}, checkpoint_freq=7)
    second = toy.config(**settings, resume=str(tmp_path / "checkpoint"))
    uninterrupted, _, resumed = (toy.fork_ranks(partial(toy.train, run), tmp_path) for run in (whole, first, second))
    for before, after in zip(uninterrupted, resumed, strict=True):
        assert toy.losses(after) == toy.losses(before)[7:]
        sums = [[rank["parameters_checksum"] for rank in run[-1].value["ranks"]] for run in (before, after)]
        assert sums[0] == sums[1]


def test_gradients_are_shared_once_a_step(tmp_path: Path) -> None:
    """Counted by a hook of DDP: one call a bucket in the last of three micro steps, none before."""
    assert toy.fork_ranks(count_sharing, tmp_path) == [{"micro_steps": 6, "shared": 2}] * 2


def count_sharing(_: Path) -> dict[str, int]:
    """How often DDP shares gradients in two steps of three micro steps."""
    counts = {"micro_steps": 0, "shared": 0}

    class Counting(toy.Classification):
        def loss(self, network: nn.Module, batch: toy.Batch) -> Tensor:
            counts["micro_steps"] += 1
            return super().loss(network, batch)

    def share(_, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations that are text
        counts["shared"] += 1
        return allreduce_hook(None, bucket)

    settings = {"gradient_accumulation_steps": 3, "max_steps": 2, "max_epochs": None, "eval_interval_epochs": None}
    parts = build_parts(toy.config(**settings, train_data=toy.node("Points", count=96)))
    parts.task = Counting()
    engine = TorchEngine(parts)
    training = Training(engine, PerfLog(0, os.open(os.devnull, os.O_WRONLY)))
    engine.model.register_comm_hook(None, share)
    training.run()
    return counts


def test_a_rank_logs_that_it_waits_in_a_collective(tmp_path: Path) -> None:
    """Rank 1 comes to the third all-reduce when rank 0 has logged two waits. Waits that are paused are not logged."""
    waiting = {"collective": "all_reduce", "number": 3, "ranks": [0, 1]}
    (first, second), none = toy.fork_ranks(waited, tmp_path)
    assert none == []
    assert {**first, "seconds": 0} == {**second, "seconds": 0} == {**waiting, "seconds": 0}
    assert 0.2 <= first["seconds"] <= second["seconds"] / 1.2


def waited(folder: Path) -> list[Any]:
    """The values of WAITING of this rank."""
    world = World.of()
    world.connect(device("cpu"), "gloo", 60.0)
    file = folder / "log"
    waits = Waits(PerfLog(world.rank, os.open(file, os.O_WRONLY | os.O_CREAT)), first=0.2)
    world.wait()
    with waits.paused():
        time.sleep(0.5 * world.rank)
        world.wait()
    deadline = time.monotonic() + 60
    other = folder.parent / "rank0" / "log"
    while world.rank == 1 and other.read_text().count("WAITING") < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    world.wait()
    waits.stop()
    return toy.values(toy.read_log(file), "WAITING")


def test_another_bit_on_one_rank_stops_all(tmp_path: Path) -> None:
    """The evaluation after step 3 compares the parameters of the ranks; step 2 has changed a bit on rank 1."""
    differ = "differ from those of rank 0 after step 3, first in 3.weight"
    assert toy.fork_ranks(with_another_bit, tmp_path) == [
        [f"silent data corruption: the parameters of rank 1 {differ}"],
        [f"silent data corruption: the parameters of this rank {differ}"],
    ]
    assert has_followed(f"the parameters of rank 1 {differ}", PYTORCH.failures)


def with_another_bit(_: Path) -> list[str]:
    """The error of a training in which rank 1 has another bit of a weight after step 2."""
    settings = {"max_steps": 6, "max_epochs": None, "eval_interval_steps": 3}
    engine = TorchEngine(build_parts(toy.config(**settings)))
    step = engine.step

    def changing(number: int) -> None:
        step(number)
        if (number, engine.world.rank) == (2, 1):
            with no_grad():
                engine.parts.network[3].weight.view(int32)[0, 0] ^= 1  # type: ignore[index]

    engine.step = changing  # type: ignore[method-assign]
    with pytest.raises(TrainingError) as caught:
        Training(engine, PerfLog(0, os.open(os.devnull, os.O_WRONLY))).run()
    return [str(caught.value)]


def test_checksums_of_steps(tmp_path: Path) -> None:
    """Equal in each training with the same seed; the losses differ between ranks, gradients and parameters do not."""
    run = toy.config(checksum_freq=2, log_freq=100, max_steps=4, max_epochs=None, eval_interval_epochs=None)
    first, again = (
        [toy.values(log, "CHECKSUMS") for log in toy.fork_ranks(partial(toy.train, run), tmp_path)] for _ in "12"
    )
    assert first == again
    assert [sums["step"] for sums in first[0]] == [2, 4]
    for sums, others in zip(*first, strict=True):
        assert sums.keys() == {"step", "loss", "gradients", "parameters"}
        assert {name for name in sums if sums[name] == others[name]} == {"step", "gradients", "parameters"}
    assert len({sums["parameters"] for sums in first[0]}) == 2


@pytest.mark.slow
def test_nan_on_one_rank_stops_all(tmp_path: Path) -> None:
    """Rank 1 is at fault in step 2; in step 4, which is logged, both have NaN."""
    of_rank_1 = toy.taken(TrainBatches(toy.Points(64), 8, 1, World(1, 2), seed=0), 2)
    data = toy.node("Points", count=64, nan_at=of_rank_1[1][0])
    status, logs = toy.torchrun(toy.config(train_data=data, log_freq=4, max_epochs=50), tmp_path)
    assert status == 1
    for rank, events in enumerate(logs):
        assert events[-1].event == "FINISHED"
        assert events[-1].value["stop_reason"] == "non_finite_loss"
        assert [event.value for event in events if event.event == "TRAIN_END"] == [{"diverged_step": 2}]
        text = (tmp_path / f"rank{rank}.out.log").read_text()
        whose = "the loss" if rank == 1 else "the loss of rank 1"
        assert f" training diverged: {whose} was nan at step 2\n" in text
        said = "\n".join(last_lines(text))
        assert has_followed(said, PYTORCH.failures) == (rank == 0)
    assert logs[0][-1].value["global_steps"] == logs[1][-1].value["global_steps"] == 4


@pytest.mark.parametrize(
    ("steps", "share", "expected"),
    [
        pytest.param([None, 2], int, Diverged(2, 1), id="one rank"),
        pytest.param([3, 2], int, Diverged(2, 1), id="one before the others"),
        pytest.param([2, 2], int, Diverged(2, None), id="several at once"),
        pytest.param([4, 4, 2, 2], lambda rank: rank // 2, Diverged(2, 2), id="two on the same data"),
        pytest.param([None, None], int, None, id="only the sum over the ranks"),
    ],
)
def test_where_a_training_diverged(
    steps: list[int | None], share: Callable[[int], int], expected: Diverged | None
) -> None:
    assert Diverged.of(steps, share) == expected


@pytest.mark.parametrize(
    ("version", "kind", "bound"),
    [
        pytest.param((2, 14), "cuda", True, id="new"),
        pytest.param((2, 3), "cuda", False, id="old"),
        pytest.param((2, 14), "acme", False, id="a chip that may not know it"),
        pytest.param((2, 14), "cpu", False, id="no chip"),
    ],
)
def test_nccl_starts_before_the_first_step(
    version: tuple[int, int], kind: str, bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(by_version, "VERSION", version)
    monkeypatch.setattr(distributed, "init_process_group", lambda _, **options: given.update(options))
    device = SimpleNamespace(type=kind)
    World(0, 2).connect(device, "of_the_vendor", 60)  # type: ignore[arg-type]
    assert given.get("device_id") is (device if bound else None)


def test_time_ends_on_all_ranks_at_the_same_step(tmp_path: Path) -> None:
    run = toy.config(max_time=0.5, max_epochs=None, eval_interval_epochs=None)
    finished = [events[-1].value for events in toy.fork_ranks(partial(toy.train, run), tmp_path)]
    assert finished[0] == finished[1]
    assert finished[0]["stop_reason"] == "max_time"
    assert finished[0]["raw_train_time"] >= 0.5
