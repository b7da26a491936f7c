"""A folder of shards as a whole: its examples by number, and an order of an epoch that needs no memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cases.bert.shard import count_examples, open_arrays
from flagperf.errors import ConfigError

NOT_MASKED = -100  # a label that the cross-entropy of PyTorch and of Paddle leaves out

Numbers = NDArray[np.int64]
Shuffled = Callable[[int, int], Numbers]  # number and size of a shard → numbers below the size, in random order


class Shards:
    """All examples of a folder of shards. Only the sizes of the shards are in memory; rows are read on access.

    Args:
        folder: holds the shards.
        pattern: names of the shards in it.
    """

    def __init__(self, folder: str, pattern: str = "part*") -> None:
        self.paths = sorted(Path(folder).glob(pattern))
        self.starts = [
            0,
            *accumulate(count_examples(path) for path in self.paths),
        ]  # number of each shard's first example
        self.opened: tuple[int, dict[str, Any]] | None = None
        if not len(self):
            raise ConfigError("no examples in this folder of the data set", where=folder, key="data_dir")

    def __len__(self) -> int:
        return self.starts[-1]

    def read(self, index: int) -> dict[str, Numbers]:
        """One example, by the names that the network and the loss give its parts."""
        shard = bisect_right(self.starts, index) - 1
        row = index - self.starts[shard]
        read = {key: np.asarray(array[row], dtype=np.int64) for key, array in self._arrays(shard).items()}
        places, words = read["masked_lm_positions"], read["masked_lm_ids"]
        return {
            "input_ids": read["input_ids"],
            "segment_ids": read["segment_ids"],
            "input_mask": read["input_mask"],
            "masked_places": places,
            "masked_words": np.where(places == 0, NOT_MASKED, words),  # place 0 is [CLS]: it means no prediction
            "not_next": read["next_sentence_labels"],
        }

    def _arrays(self, shard: int) -> dict[str, Any]:
        """The arrays of a shard. Each process of the loader opens them, since HDF5 does not survive a fork."""
        if self.opened is None or self.opened[0] != shard:
            self.opened = (shard, open_arrays(self.paths[shard]))
        return self.opened[1]


class ShardOrder(Sequence[int]):
    """The shards one after the other in random order, the examples of each in random order.

    So one shard is read at a time, and only its order is in memory: there are over 10^8 examples.

    Args:
        starts: number of each shard's first example, and at the end how many there are.
        shards: their order.
        shuffled: the order of the examples of one shard, always the same one.
    """

    def __init__(self, starts: Sequence[int], shards: Sequence[int], shuffled: Shuffled) -> None:
        self.starts, self.shards, self.shuffled = starts, shards, shuffled
        self.begins = [0, *accumulate(starts[shard + 1] - starts[shard] for shard in shards)]
        self.current: tuple[int, Numbers] | None = None

    def __len__(self) -> int:
        return self.begins[-1]

    def __getitem__(self, places: Any) -> Any:
        if not isinstance(places, slice):
            return self[places : places + 1][0]
        start, stop, _ = places.indices(len(self))
        return [example for part in self._parts(start, stop) for example in part.tolist()]

    def _parts(self, start: int, stop: int) -> Iterator[Numbers]:
        """The examples from place `start` to `stop`, shard by shard."""
        while start < stop:
            turn = bisect_right(self.begins, start) - 1
            part = self._of_turn(turn)[start - self.begins[turn] : stop - self.begins[turn]]
            yield part
            start += len(part)

    def _of_turn(self, turn: int) -> Numbers:
        """The examples of the shard at a position of the order."""
        if self.current is None or self.current[0] != turn:
            shard = self.shards[turn]
            size = self.starts[shard + 1] - self.starts[shard]
            self.current = (turn, self.starts[shard] + self.shuffled(shard, size))
        return self.current[1]
