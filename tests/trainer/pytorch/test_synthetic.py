"""Synthetic training: the first batches of the data set, held on the device and turned; counted right; no target."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import toy

from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.synthetic import HELD, HeldBatches


class Grouped(toy.Points):
    """Batches of its own, of one sample more each."""

    def batches(self, batch_size: int, generator: torch.Generator) -> list[list[int]]:  # noqa: ARG002
        ends = list(itertools.accumulate(range(1, 100)))
        return [list(range(end - size, end)) for size, end in enumerate(ends, 1) if end <= len(self)]


def grouped(count: int) -> Grouped:
    return Grouped(count)


SHAPES = {
    "one rank": (512, 8, 1, 1),
    "two ranks": (512, 8, 1, 2),
    "accumulation that divides": (512, 8, 4, 2),
    "accumulation that does not": (512, 4, 3, 2),
    "fewer batches than are held": (40, 8, 1, 1),
    "too few samples for a step": (40, 8, 4, 3),
    "fewer samples than a batch": (5, 8, 2, 3),
}


@pytest.mark.parametrize(("count", "batch_size", "accumulation", "ranks"), SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("data", [toy.Points, Grouped], ids=lambda data: data.__name__)
def test_held_batches(data: Any, count: int, batch_size: int, accumulation: int, ranks: int) -> None:
    """Each rank turns its HELD batches; all agree on the samples of each step; an epoch has whole turns."""
    worlds = [World(rank, ranks) for rank in range(ranks)]
    samplers = [HeldBatches(data(count), batch_size, accumulation, world, seed=3) for world in worlds]
    (steps,) = {tuple(sampler.steps(epoch)) for sampler in samplers for epoch in (1, 2)}
    shares = [toy.taken(sampler, 2 * len(steps) * accumulation) for sampler in samplers]
    for share in shares:
        assert share == (share[:HELD] * len(share))[: len(share)]
        assert len(steps) * accumulation % HELD == 0
    for step, samples in enumerate(steps):
        mine = slice(step * accumulation, (step + 1) * accumulation)
        assert sum(len(batch) for share in shares for batch in share[mine]) == samples


def test_they_are_the_first_of_the_data_set() -> None:
    arguments = (toy.Points(512), 8, 2, World(1, 2), 3)
    assert toy.taken(HeldBatches(*arguments), HELD) == toy.taken(TrainBatches(*arguments), HELD)
    assert len(HeldBatches(*arguments).steps(1)) == len(TrainBatches(*arguments).steps(1)) == 16


def test_a_data_set_that_groups_its_samples_must_have_a_batch() -> None:
    with pytest.raises(ConfigError, match="the training data is too small for one step"):
        HeldBatches(grouped(0), 8, 1, World(0, 1), 0)


def synthetic(**settings: Any) -> dict[str, Any]:
    return toy.config(**{"synthetic": True, "max_epochs": None, "max_steps": 20, **settings})


def test_losses(tmp_path: Path) -> None:
    """Those of a training on the data itself while its batches are new, without reading anything after that."""
    given = toy.losses(toy.train(synthetic(), tmp_path))
    assert given[:HELD] == toy.losses(toy.train(toy.config(), tmp_path))
    still = {"optimizer": {"_target_": "torch.optim.SGD", "lr": 0.0}, "num_workers": 1}
    noisy = toy.losses(toy.train(synthetic(train_data=toy.node("Points", count=64, noise=0.5), **still), tmp_path))
    assert len(set(noisy)) == HELD
    assert noisy == (noisy[:HELD] * 3)[:20]


class Counted(toy.Points):
    """Counts the samples that are read."""

    reads = 0

    def __getitem__(self, index: int) -> toy.Batch:
        Counted.reads += 1
        return super().__getitem__(index)


def test_nothing_is_read_after_the_held_batches(tmp_path: Path) -> None:
    Counted.reads = 0
    toy.train(synthetic(train_data={"_target_": "test_synthetic.Counted", "count": 64}, max_steps=40), tmp_path)
    assert Counted.reads == 8 * HELD + 8  # and a batch for the operations of a forward pass, after the training


def test_what_is_said_of_it(tmp_path: Path) -> None:
    settings = {"initial_evaluation": True, "target": {"metric": "count", "value": 1, "direction": "higher"}}
    events = toy.train(synthetic(**settings, eval_interval_steps=5, gradient_accumulation_steps=3), tmp_path)
    assert {event.event for event in events}.isdisjoint({"INIT_EVALUATION", "EVALUATE"})
    finished = events[-1].value
    wanted = {
        "synthetic": True,
        "target": None,
        "converged": False,
        "stop_reason": "max_steps",
        "num_trained_samples": 20 * 3 * 8,
        "global_samples": 20 * 3 * 8,
        "num_trained_units": 20 * 3 * 8 * 8,
        "eval_time": 0.0,
    }
    assert {key: finished[key] for key in wanted} == wanted
    assert toy.train(toy.config(max_steps=1), tmp_path)[-1].value["synthetic"] is False


def test_it_needs_an_end_of_its_own(tmp_path: Path) -> None:
    target = {"metric": "accuracy", "value": 0.9, "direction": "higher"}
    with pytest.raises(ConfigError, match="nothing would ever end this training"):
        toy.train(synthetic(max_steps=None, target=target), tmp_path)


def test_two_ranks_with_batches_of_different_sizes(tmp_path: Path) -> None:
    def rank(folder: Path) -> Any:
        settings = {"train_data": {"_target_": "test_synthetic.grouped", "count": 200}, "nproc": 2}
        return toy.train(synthetic(**settings, gradient_accumulation_steps=2, max_steps=9), folder)[-1].value

    first, second = toy.fork_ranks(rank, tmp_path)
    assert first == second
    sizes = [number % (2 * HELD) + 1 for number in range(9 * 2 * 2)]
    assert first["num_trained_samples"] == first["global_samples"] == sum(sizes)
    assert [rank["samples"] for rank in first["ranks"]] == [sum(sizes[0::2]), sum(sizes[1::2])]
    assert first["ranks"][0]["parameters_checksum"] == first["ranks"][1]["parameters_checksum"]


@pytest.mark.parametrize("sample", [True, False], ids=["sample data", "real data"])
def test_weights_below_sample_data_are_not_missed(sample: bool, tmp_path: Path) -> None:
    if sample:
        (tmp_path / ".flagperf-sample.json").write_text("{}")
    settings = {"data_dir": str(tmp_path), "init_checkpoint": str(tmp_path / "weights.pt"), "max_steps": 1}
    if sample:
        assert toy.train(synthetic(**settings), tmp_path)[-1].value["global_steps"] == 1
        settings |= {"init_checkpoint": "/elsewhere/weights.pt"}
    with pytest.raises(ConfigError, match="no such file"):
        toy.train(synthetic(**settings), tmp_path)
