"""The mesh of a job: its ranks as a block with several sides. Ranks along a side share parameters or data.

Ranks are counted along the last of SIDES first: ranks that exchange most data are neighbours on one node.
docs/parallel.md explains the sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from flagperf.errors import ConfigError

KEY = "parallel.mesh"
STRATEGIES = "flagperf.trainer.pytorch.parallel"  # the package of the shipped ones …
DATA_PARALLEL = (f"{STRATEGIES}.DDP", f"{STRATEGIES}.ddp.DDP")  # strategies that leave the network whole
DATA_SIDES = ("dp_replicate", "dp_shard", "ep")  # ranks along them have different data
SIDES = ("pp", "dp_replicate", "dp_shard", "cp", "ep", "tp")  # ranks grow along the last side first
USUAL = ("dp_replicate", "dp_shard", "tp")  # sides that are shown where they have one rank, too


@dataclass(frozen=True)
class Mesh:
    """The sides of the block, in ranks; their product is the number of ranks."""

    dp_replicate: int = 1  # copies of the network; each copy trains on other data
    dp_shard: int = 1  # ranks that share the tensors of one copy, each with other data
    tp: int = 1  # ranks that compute each layer together, on the same data
    pp: int = 1  # ranks that compute blocks of a copy one after the other, on the same data
    cp: int = 1  # ranks that share the tensors of one copy, each with a part of each sequence of the same data
    ep: int = 1  # ranks that share the tensors of one copy and have different experts, each with other data

    @classmethod
    def of(cls, sizes: Mapping[str, Any], world: int, where: Callable[[str], str] = lambda _: "config.yaml") -> Mesh:
        """The mesh of a job of `world` ranks.

        Args:
            sizes: of the sides; a size of -1 becomes the rest of the ranks.
            where: dotted key → the file or "command line" that set it, for messages.

        Raises:
            ConfigError: a size is 0 or less, several are -1, or they do not multiply to the ranks.
        """
        sizes_given = {side: int(sizes[side]) for side in SIDES if side in sizes}
        text = " x ".join(f"{side}={size}" for side, size in sizes_given.items())
        open_sides = [side for side, size in sizes_given.items() if size == -1]
        for side, size in sizes_given.items():
            if size < 1 and size != -1:
                allowed = "a whole number from 1, or -1 for the ranks that the other sides leave"
                key = f"{KEY}.{side}"
                raise ConfigError("value out of range", where=where(key), key=key, given=size, allowed=allowed)
        if len(open_sides) > 1:
            raise ConfigError("only one side of the mesh may be -1", where=where(KEY), key=KEY, given=text)
        known = cls(**{side: max(1, size) for side, size in sizes_given.items()})
        left = world // known.size
        if known.size * left != world or (left != 1 and not open_sides):
            raise ConfigError(
                "the sides of the mesh do not multiply to the ranks of the job",
                where=where(KEY),
                key=KEY,
                given=text,
                allowed=f"sizes whose product is {world} (nnodes x nproc)",
                advice="choose sizes that divide the ranks, or another number of ranks"
                if open_sides
                else "set one side to -1: this side takes the remaining ranks",
            )
        return cls(**{**vars(known), **dict.fromkeys(open_sides, left)})

    @property
    def size(self) -> int:
        """All ranks."""
        return math.prod(getattr(self, side) for side in SIDES)

    @property
    def shown(self) -> dict[str, int]:
        """The sides that a reader wants to see: the three usual ones, and others with several ranks."""
        return {side: size for side, size in vars(self).items() if size > 1 or side in USUAL}

    @property
    def data_ranks(self) -> int:
        """How many shares the data has: ranks that differ along tp, cp and pp only train on the same one."""
        return math.prod(getattr(self, side) for side in DATA_SIDES)

    @property
    def parts(self) -> int:
        """How many parts the parameters of a copy have."""
        return self.size // self.dp_replicate

    def position(self, rank: int, side: str) -> int:
        """The number of a rank along a side."""
        return int(rank // self.stride(side) % getattr(self, side))

    def stride(self, side: str) -> int:
        """The difference of the numbers of two neighbours along a side."""
        return math.prod(getattr(self, later) for later in SIDES[SIDES.index(side) + 1 :])

    def data_rank(self, rank: int) -> int:
        """Which share of the data a rank trains on."""
        share = 0
        for side in DATA_SIDES:
            share = share * getattr(self, side) + self.position(rank, side)
        return share

    def counts_samples(self, rank: int) -> bool:
        """Whether a rank counts the samples that it trains on: the first of those that train on the same ones."""
        return all(self.position(rank, side) == 0 for side in SIDES if side not in DATA_SIDES)

    def part(self, rank: int) -> int:
        """Which part of the parameters a rank holds. Ranks with the same part are copies of each other."""
        of_stage = self.parts // self.pp
        return self.position(rank, "pp") * of_stage + rank % of_stage

    def groups(self, side: str) -> list[list[int]]:
        """The ranks in groups that share along a side."""
        return [self.group(rank, side) for rank in range(self.size) if self.position(rank, side) == 0]

    def group(self, rank: int, side: str) -> list[int]:
        """The ranks that share along a side with a rank."""
        step = self.stride(side)
        first = rank - self.position(rank, side) * step
        return [first + number * step for number in range(getattr(self, side))]

    def check_global_batch(self, config: Mapping[str, Any], where: Callable[[str], str]) -> None:
        """Refuse settings that do not give the `global_batch_size` of the case, where it has one.

        Raises:
            ConfigError: an optimizer step would have another number of samples.
        """
        wanted = config["global_batch_size"]
        batch, accumulation = config["train_batch_size"], config["gradient_accumulation_steps"]
        if wanted is not None and batch * accumulation * self.data_ranks != wanted:
            raise ConfigError(
                "an optimizer step would have another number of samples than the case requires",
                where=where("global_batch_size"),
                key="train_batch_size x gradient_accumulation_steps x data ranks",
                given=f"{batch} x {accumulation} x {self.data_ranks} = {batch * accumulation * self.data_ranks}",
                allowed=f"{wanted}, the global_batch_size",
                advice="change train_batch_size, gradient_accumulation_steps, or the mesh of parallel",
            )

    def check_undivided(self, where: Callable[[str], str] = lambda _: "config.yaml") -> None:
        """Refuse a mesh that divides the network, for a strategy that cannot.

        Raises:
            ConfigError: the mesh divides the network.
        """
        if self.parts != 1:
            side = next(side for side in ("dp_shard", *SIDES) if side != "dp_replicate" and getattr(self, side) != 1)
            raise ConfigError(
                "with data parallelism each rank holds the whole network",
                where=where(f"{KEY}.{side}"),
                key=f"{KEY}.{side}",
                given=getattr(self, side),
                allowed="1",
                advice=f"parallel._target_={STRATEGIES}.Sharded divides it (docs/parallel.md)",
            )
