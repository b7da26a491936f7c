"""Batches: the samples of each rank, and their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, List, Sequence, Tuple

from flagperf.errors import ConfigError
from flagperf.trainer.ranks import Ranks

Numbered = Tuple[int, List[int]]  # seed of a batch, indices of its samples


class EndlessBatches:
    """This rank's batches without end, epoch after epoch, from any step on.

    Each epoch is one permutation of the data set, cut into full batches that are dealt to the ranks in turn. No sample
    comes twice, every rank has the same number of steps, and samples that fill no step are left out.

    A data set may group its samples itself: `batches(batch_size, generator) -> list[list[int]]` gives all batches of
    one epoch. A data set that is too large to be shuffled as a whole has `order(generator) -> Sequence[int]`, all
    samples of one epoch. Only slices of it are read, each when its batch is needed. The generator is of
    the framework's kind: a framework implements `generator` and `permutation`.

    In a process of the loader, the random numbers of a batch depend on seed, epoch and its number only, not on the
    rank, the process or earlier numbers. So a resumed training sees the same augmentation without a replay of skipped
    batches. Where the rank itself loads, it draws from its own generators, whose state is in the checkpoint.
    """

    def __init__(self, dataset: Any, batch_size: int, accumulation: int, world: Ranks, seed: int) -> None:
        self.dataset, self.batch_size, self.seed = dataset, batch_size, seed
        self.world = world
        self.per_step = accumulation * world.size  # batches of the job in one optimizer step
        self.start_at(epoch=1, step=0)
        self.steps_per_epoch = len(self.steps(1))  # of the first epoch, where the data set groups its samples itself
        if not self.steps_per_epoch:
            raise ConfigError(
                "the training data is too small for one step",
                where="config.yaml",
                key="train_batch_size",
                given=batch_size,
                allowed=f"{len(dataset)} samples are fewer than {self.per_step} full batches "
                f"({world.size} ranks x {accumulation} gradient_accumulation_steps)",
            )

    def start_at(self, epoch: int, step: int) -> None:
        """Let the next iteration begin after `step` steps of an epoch; epochs count from 1."""
        self.epoch, self.step = epoch, step

    def steps(self, epoch: int) -> list[int]:
        """Samples of the whole job in each step of an epoch."""
        sizes = self._sizes(epoch)
        starts = range(0, len(sizes) - self.per_step + 1, self.per_step)
        return [sum(sizes[start : start + self.per_step]) for start in starts]

    def _sizes(self, epoch: int) -> list[int]:
        """Samples of each batch of an epoch, without shuffling where all have the same size."""
        if hasattr(self.dataset, "batches"):
            return [len(batch) for batch in self._batches(epoch)]
        return [self.batch_size] * (len(self.dataset) // self.batch_size)

    def __iter__(self) -> Iterator[Numbered]:
        epoch, step = self.epoch, self.step
        while True:
            batches = self._batches(epoch)
            last = len(batches) - len(batches) % self.per_step
            for number in range(step * self.per_step + self.world.rank, last, self.world.size):
                yield batch_seed(self.seed, epoch, number), batches[number]
            epoch, step = epoch + 1, 0

    def _batches(self, epoch: int) -> Sequence[list[int]]:
        generator = self.generator(batch_seed(self.seed, epoch, 0))
        if hasattr(self.dataset, "batches"):
            batches: list[list[int]] = self.dataset.batches(self.batch_size, generator)
            return batches
        if hasattr(self.dataset, "order"):
            return FullBatches(self.dataset.order(generator), self.batch_size)
        return FullBatches(self.permutation(len(self.dataset), generator), self.batch_size)

    def generator(self, seed: int) -> Any:
        """A generator of random numbers, of the framework's kind."""
        raise NotImplementedError

    def permutation(self, count: int, generator: Any) -> list[int]:
        """The numbers below `count` in random order."""
        raise NotImplementedError


class FullBatches(Sequence[List[int]]):
    """An order of samples, cut into full batches on access. Samples that fill no batch are unused."""

    def __init__(self, order: Sequence[int], size: int) -> None:
        self.order, self.size = order, size

    def __len__(self) -> int:
        return len(self.order) // self.size

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return list(self.order[number * self.size : (number + 1) * self.size])


def eval_batches(samples: int, batch_size: int, world: Ranks) -> list[Numbered]:
    """This rank's share of the evaluation data: every sample on exactly one rank, shares uneven by one at most."""
    share = list(range(world.rank, samples, world.size))
    starts = range(0, len(share), batch_size)
    return [(batch_seed(0, 0, world.rank + start), share[start : start + batch_size]) for start in starts]


def batch_seed(seed: int, epoch: int, number: int) -> int:
    """32 bits for the random numbers of one batch."""
    return ((seed * 1_000_003 + epoch) * 1_000_003 + number) % 2**32
