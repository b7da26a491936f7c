"""Which samples each rank gets, in what order, and what random numbers they see."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
import torch
import toy
from torch.utils.data import Dataset

from flagperf.errors import ConfigError
from flagperf.trainer.data import samples
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.loading import Loader
from flagperf.trainer.pytorch.ranks import World

CPU = torch.device("cpu")


def job(count: int, batch_size: int, accumulation: int, ranks: int, seed: int = 0) -> list[TrainBatches]:
    """The batches of all ranks of a job."""
    data = toy.Points(count)
    return [TrainBatches(data, batch_size, accumulation, World(rank, ranks), seed) for rank in range(ranks)]


SHAPES = {
    "one rank": (64, 8, 1, 1),
    "two ranks": (64, 8, 1, 2),
    "samples left over": (67, 8, 1, 3),
    "accumulation": (100, 4, 3, 2),
    "all in one step": (48, 8, 2, 3),
}


@pytest.mark.parametrize(("count", "batch_size", "accumulation", "ranks"), SHAPES.values(), ids=SHAPES.keys())
def test_an_epoch(count: int, batch_size: int, accumulation: int, ranks: int) -> None:
    """Full batches, no sample twice, the same number of steps on every rank, as many as fit."""
    samplers = job(count, batch_size, accumulation, ranks)
    steps = count // (batch_size * accumulation * ranks)
    shares = [toy.taken(sampler, steps * accumulation) for sampler in samplers]
    seen = [index for share in shares for batch in share for index in batch]
    assert {len(batch) for share in shares for batch in share} == {batch_size}
    assert len(seen) == len(set(seen)) == steps * batch_size * accumulation * ranks
    assert set(seen) <= set(range(count))
    assert [sampler.steps(1) for sampler in samplers] == [[batch_size * accumulation * ranks] * steps] * ranks


def test_epochs_differ_and_repeat_with_the_seed() -> None:
    first, again, other = (job(64, 8, 1, 1, seed)[0] for seed in (1, 1, 2))
    two_epochs = toy.taken(first, 16)
    assert two_epochs == toy.taken(again, 16)
    assert two_epochs[:8] != two_epochs[8:]
    assert sorted(itertools.chain(*two_epochs[8:])) == list(range(64))
    assert two_epochs != toy.taken(other, 16)


def test_order_does_not_depend_on_the_number_of_ranks() -> None:
    """A step sees the same samples, however they are dealt."""
    alone = toy.taken(job(64, 8, 2, 1)[0], 8)
    pair = [toy.taken(sampler, 4) for sampler in job(64, 8, 1, 2)]
    assert [set(alone[0] + alone[1])] == [set(pair[0][0] + pair[1][0])]


@pytest.mark.parametrize("place", [(1, 0), (1, 3), (1, 4), (2, 0), (3, 2)])
def test_starts_anywhere(place: tuple[int, int]) -> None:
    """Four steps an epoch: the row continues as if it had been read up to there."""
    epoch, step = place
    whole = list(itertools.islice(job(64, 4, 2, 2)[1], 40))
    sampler = job(64, 4, 2, 2)[1]
    sampler.start_at(epoch, step)
    done = ((epoch - 1) * 4 + step) * 2
    assert list(itertools.islice(sampler, 10)) == whole[done : done + 10]


class Grouped(toy.Points):
    """Groups its own samples: pairs and triples."""

    def batches(self, batch_size: int, generator: torch.Generator) -> list[list[int]]:
        first = torch.randint(10, (), generator=generator).item()
        return [[first], [1, 2, 3], [4, 5], [6, 7, 8], [9]][: batch_size + 1]


def test_a_data_set_may_group_its_samples() -> None:
    samplers = [TrainBatches(Grouped(10), 4, 1, World(rank, 2), seed=0) for rank in range(2)]
    assert samplers[0].steps(1) == [4, 5]
    assert toy.taken(samplers[0], 2)[1] == [4, 5]
    assert toy.taken(samplers[1], 2) == [[1, 2, 3], [6, 7, 8]]


class Backwards:
    """More samples than anyone shuffles as a whole, taken from the last to the first."""

    def __len__(self) -> int:
        return 10**9 + 7

    def order(self, generator: torch.Generator) -> range:  # noqa: ARG002
        return range(len(self) - 1, -1, -1)


def test_a_data_set_may_give_the_order_of_its_samples() -> None:
    first, second = (TrainBatches(Backwards(), 10**5, 1, World(rank, 2), seed=0) for rank in (0, 1))
    assert first.steps(1) == second.steps(1) == [2 * 10**5] * 5000
    assert [batch[0] for batch in toy.taken(first, 2)] == [10**9 + 6, 10**9 + 6 - 2 * 10**5]
    second.start_at(1, 4999)
    assert toy.taken(second, 2) == [
        list(range(10**5 + 6, 6, -1)),
        list(range(10**9 + 6 - 10**5, 10**9 + 6 - 2 * 10**5, -1)),
    ]


def test_too_little_data_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        job(31, 8, 2, 2)
    assert str(refused.value) == (
        "the training data is too small for one step\n"
        "  where:   config.yaml\n"
        "  key:     train_batch_size\n"
        "  given:   8\n"
        "  allowed: 31 samples are fewer than 4 full batches (2 ranks x 2 gradient_accumulation_steps)"
    )


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 5, 16, 19])
def test_every_evaluation_sample_is_on_exactly_one_rank(count: int, ranks: int) -> None:
    shares = [[indices for _, indices in eval_batches(count, 3, World(rank, ranks))] for rank in range(ranks)]
    seen = [index for share in shares for batch in share for index in batch]
    assert sorted(seen) == list(range(count))
    sizes = [sum(len(batch) for batch in share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert all(len(batch) <= 3 for share in shares for batch in share)


def noisy(workers: int, ranks: int = 1, rank: int = 0) -> list[torch.Tensor]:
    """Four batches of randomly augmented points."""
    data = toy.Points(32, noise=1.0)
    batches = TrainBatches(data, 4, 1, World(rank, ranks), seed=3)
    stream = iter(Loader(data, batches, workers, CPU))
    return [inputs for inputs, _ in itertools.islice(stream, 4)]


def test_augmentation_does_not_depend_on_the_loaders_processes_or_ranks() -> None:
    one, two = noisy(workers=1), noisy(workers=2)
    assert all(torch.equal(first, second) for first, second in zip(one, two, strict=True))
    pair = [noisy(workers=1, ranks=2, rank=rank) for rank in range(2)]
    dealt = [pair[0][0], pair[1][0], pair[0][1], pair[1][1]]
    assert all(torch.equal(first, second) for first, second in zip(one, dealt, strict=True))


def test_loading_takes_no_numbers_from_the_ranks_own_generator() -> None:
    before = torch.get_rng_state()
    noisy(workers=1)
    assert torch.equal(torch.get_rng_state(), before)


class Broken(toy.Points):
    """Cannot read one of its samples."""

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise ConfigError("cannot read an image", where="/data/5.jpg", advice="replace it")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_for_the_user_arrives_as_it_was_raised(workers: int) -> None:
    from flagperf.trainer.pytorch.loading import on_device

    data = Broken(8)
    stream = on_device(Loader(data, eval_batches(8, 2, World()), workers, CPU), lambda batch: batch, CPU)
    with pytest.raises(ConfigError) as refused:
        list(stream)
    assert str(refused.value) == "cannot read an image\n  where:   /data/5.jpg\n  do:      replace it"
    assert refused.value.where == "/data/5.jpg"


class ProcessIds(Dataset[int]):
    """Each sample is the id of the process that loads it."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return os.getpid()


def test_processes_of_a_loader_start_with_it_and_stay() -> None:
    forks: list[None] = []
    os.register_at_fork(before=lambda: forks.append(None))
    batches = Loader(ProcessIds(), [(0, [0, 1]), (0, [2, 3])], 2, CPU)
    assert len(forks) == 2
    found = [sorted({pid for batch in batches for pid in batch.tolist()}) for _ in range(2)]
    assert (found[0], len(found[0]), os.getpid() in found[0]) == (found[1], 2, False)
    assert len(forks) == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_may_stop_early(workers: int) -> None:
    batches = Loader(ProcessIds(), TrainBatches(ProcessIds(), 1, 1, World(), seed=0), workers, CPU, limit=3)
    assert [len(list(batches)) for _ in range(2)] == [3, 3]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        pytest.param("stack expects each tensor to be equal size", samples.OTHER, id="odd sizes"),
        pytest.param("unable to write to file </torch_29_31_0>: No space left (28)", samples.SHARED, id="full"),
        pytest.param("unable to resize file </torch_29_31_0> to the right size: File too large (27)", samples.SHARED,
                     id="ulimit -f"),
    ],
)  # fmt: skip
def test_what_keeps_samples_from_being_a_batch(text: str, advice: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError(text)
    assert samples.unreadable(range(9), [0, 1], caught.value).advice == advice
