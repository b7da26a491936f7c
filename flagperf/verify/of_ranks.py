"""What each rank says that it measured, from the events of its own log."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from flagperf.verify.logs import Rank, Round
from flagperf.verify.values import CLOCKS, Derivation, Row, UnknownError, row

INSIDE = "measured inside the process; no event holds it"


@dataclass(frozen=True)
class Stretch:
    """The steps from one STEP_END to the next."""

    first: int  # the step before its first
    last: int
    seconds: float
    units: float  # of the whole job


def stretches(rank: Rank) -> list[Stretch]:
    """All steps of a training: each STEP_END tells the mean time and the throughput since the one before."""
    before = rank.finished.get("resumed_from_step") or 0
    found = []
    for event in rank.all("STEP_END"):
        step, time = event.value["step"], event.value["step_time"]
        seconds = time * (step - before)
        found.append(Stretch(before, step, seconds, event.value["throughput"] * seconds))
        before = step
    if not found or before != rank.finished["global_steps"]:
        raise UnknownError(f"the last STEP_END is of step {before}")
    return found


def steady(rank: Rank) -> list[Stretch]:
    """The steps after the warm-up."""
    begin = (rank.finished.get("resumed_from_step") or 0) + rank.finished["warmup_steps"]
    found = stretches(rank)
    if begin >= found[-1].last:
        return []
    if begin not in [stretch.first for stretch in found]:
        raise UnknownError(f"the warm-up ends with step {begin}, which was not logged")
    return [stretch for stretch in found if stretch.first >= begin]


def percentile(share: float, rank: Rank) -> float | None:
    """The step time below which this share of the steps after the warm-up lies, between the two nearest ones."""
    after = steady(rank)
    if any(stretch.last - stretch.first != 1 for stretch in after):
        raise UnknownError("not every step was logged: log_freq=1 logs them")
    times = sorted(stretch.seconds for stretch in after)
    if not times:
        return None
    place = share * (len(times) - 1)
    low = min(int(place), len(times) - 2) if len(times) > 1 else 0
    high = times[min(low + 1, len(times) - 1)]
    return times[low] + (high - times[low]) * (place - low)


def _checksum(rank: Rank) -> str:
    checksum = 0
    for event in rank.all("STEP_END"):
        checksum = zlib.crc32(struct.pack("<d", event.value["loss"]), checksum)
    return format(checksum, "08x")


def _group(rank: Rank) -> int:
    """Which part of the parameters it holds: ranks are counted along tp, then along dp_shard."""
    config = rank.last("SUBMIT_INFO").value["config"]
    sizes = (config.get("parallel") or {}).get("mesh") or {"dp_replicate": -1, "dp_shard": 1, "tp": 1}
    known = -math.prod(sizes.values()) if -1 in sizes.values() else 1
    open_size = int(config["nnodes"]) * int(config["nproc"]) // known
    shard, tp = (open_size if sizes[side] == -1 else int(sizes[side]) for side in ("dp_shard", "tp"))
    return rank.number % (shard * tp)


def _steps(rank: Rank) -> int:
    found = stretches(rank)
    return found[-1].last - found[0].first


def _compute_time(rank: Rank) -> float:
    """Only its bound is known: what steps took beside waiting for data, bookkeeping included."""
    most = sum(one.seconds for one in stretches(rank)) - sum(event.value["data_wait"] for event in rank.all("STEP_END"))
    if rank.measured["compute_time"] <= most * (1 + 1e-9):
        raise UnknownError(f"{INSIDE}. Its steps took {most:.6g} s beside waiting for data, and it is not more")
    return float(most)


def _by_the_wall_clock(rank: Rank) -> float:
    return rank.last("TRAIN_END").seconds - rank.last("TRAIN_START").seconds - float(rank.measured["wall_drift"])


OF_A_RANK = {
    "steps": Derivation(_steps, "number of the last STEP_END"),
    "raw_train_time": Derivation(_by_the_wall_clock, "from TRAIN_START to TRAIN_END by the wall clock", CLOCKS),
    "step_time_sum": Derivation(lambda rank: sum(one.seconds for one in stretches(rank)), "its STEP_ENDs added up"),
    "data_wait": Derivation(
        lambda rank: sum(event.value["data_wait"] for event in rank.all("STEP_END")), "its STEP_ENDs added up"
    ),
    "eval_time": Derivation(
        lambda rank: float(sum(event.value["time"] for event in rank.all("EVALUATE"))), "its EVALUATEs added up"
    ),
    "compute_time": Derivation(_compute_time, "at most what its steps took beside waiting for data"),
    "steady_time": Derivation(
        lambda rank: sum(one.seconds for one in steady(rank)), "its STEP_ENDs after the warm-up added up"
    ),
    "parameters_group": Derivation(_group, "its place in the mesh of SUBMIT_INFO"),
    "loss_checksum": Derivation(_checksum, "CRC-32 of the losses of its STEP_ENDs"),
    **{
        f"step_time_p{percent}": Derivation(partial(percentile, percent / 100), "its STEP_ENDs")
        for percent in (50, 90, 99)
    },
}
KNOWN_TO_THE_PROCESS = ("checkpoint_time", "init_time", "e2e_time", "peak_memory", "parameters_checksum")


def rows_of_ranks(place: str, round_: Round) -> Iterator[Row]:
    """A row a figure: that of the first rank that differs, else of the first rank."""
    ranks = [rank for rank in round_.ranks if rank.all("FINISHED")]
    for figure, way in OF_A_RANK.items():
        found = [
            row(place, f"rank {rank.number}: {figure}", own[figure], way, rank)
            for rank in ranks
            if (own := _measured(rank)) and figure in own
        ]
        yield from _one_of(found)
    for figure in KNOWN_TO_THE_PROCESS:
        if ranks and figure in (own := _measured(ranks[0])):
            name = f"rank {ranks[0].number}: {figure}"
            yield Row(place, name, own[figure], None, "not recomputed", INSIDE)


def _measured(rank: Rank) -> dict[str, object]:
    try:
        return dict(rank.measured)
    except (UnknownError, TypeError, AttributeError):
        return {}


def _one_of(found: Sequence[Row]) -> Iterator[Row]:
    differing = [one for one in found if one.answer == "differs"]
    unknown = [one for one in found if one.answer == "not recomputed"]
    for one in (differing or unknown or found)[: None if differing else 1]:
        more = f"; the same of all {len(found)} ranks" if not differing and len(found) > 1 else ""
        yield Row(one.place, one.figure, one.stated, one.found, one.answer, f"{one.how}{more}")
