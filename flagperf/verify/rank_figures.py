"""Recomputes the figures of each rank from the events of its own log."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from flagperf.verify.logs import Rank, Round
from flagperf.verify.mesh import sizes_of
from flagperf.verify.values import CLOCKS, Derivation, Row, UnknownError, recompute

INSIDE = "measured inside the process; no event contains this figure"


@dataclass(frozen=True)
class Stretch:
    """The steps from one STEP_END to the next."""

    first: int  # the step before the first step of the stretch
    last: int
    seconds: float
    units: float  # of the whole job


def stretches(rank: Rank) -> list[Stretch]:
    """All steps of a training. Each STEP_END has the mean time and the throughput since the previous STEP_END."""
    before = rank.finished.get("resumed_from_step") or 0
    steps = []
    for event in rank.all("STEP_END"):
        step, time = event.value["step"], event.value["step_time"]
        seconds = time * (step - before)
        steps.append(Stretch(before, step, seconds, event.value["throughput"] * seconds))
        before = step
    if not steps or before != rank.finished["global_steps"]:
        raise UnknownError(f"the last STEP_END belongs to step {before}")
    return steps


def steady(rank: Rank) -> list[Stretch]:
    """The steps after the warm-up."""
    begin = (rank.finished.get("resumed_from_step") or 0) + rank.finished["warmup_steps"]
    steps = stretches(rank)
    if begin >= steps[-1].last:
        return []
    if begin not in [stretch.first for stretch in steps]:
        raise UnknownError(f"the warm-up ends with step {begin}, and that step was not logged")
    return [stretch for stretch in steps if stretch.first >= begin]


def percentile(share: float, rank: Rank) -> float | None:
    """The step time below which this share of the steps after the warm-up lies. Interpolates between two steps."""
    steps = steady(rank)
    if any(stretch.last - stretch.first != 1 for stretch in steps):
        raise UnknownError("some steps were not logged; log_freq=1 logs every step")
    times = sorted(stretch.seconds for stretch in steps)
    if not times:
        return None
    position = share * (len(times) - 1)
    low = min(int(position), len(times) - 2) if len(times) > 1 else 0
    high = times[min(low + 1, len(times) - 1)]
    return times[low] + (high - times[low]) * (position - low)


def _loss_checksum(rank: Rank) -> str:
    checksum = 0
    for event in rank.all("STEP_END"):
        checksum = zlib.crc32(struct.pack("<d", event.value["loss"]), checksum)
    return format(checksum, "08x")


def _group(rank: Rank) -> int:
    """The number of the part of the parameters that a rank holds.

    Ranks are counted along tp, ep, cp, dp_shard, dp_replicate and pp, in this order. A stage has a part for each
    position along the first four, and its copies lie along dp_replicate.
    """
    config = rank.last("SUBMIT_INFO").value["config"]
    size, world = sizes_of(config), int(config["nnodes"]) * int(config["nproc"])
    of_stage = math.prod(size.get(side, 1) for side in ("dp_shard", "cp", "ep", "tp"))
    stage = rank.number // (world // size.get("pp", 1))
    return stage * of_stage + rank.number % of_stage


def _steps(rank: Rank) -> int:
    steps = stretches(rank)
    return steps[-1].last - steps[0].first


def _compute_time(rank: Rank) -> float:
    """The upper bound of the compute time. It is the time of the steps without waiting for data."""
    steps = sum(stretch.seconds for stretch in stretches(rank))
    most = steps - sum(event.value["data_wait"] for event in rank.all("STEP_END"))
    if rank.measured["compute_time"] <= most * (1 + 1e-9):
        raise UnknownError(
            f"{INSIDE}. The figure is within its upper bound: the steps took {most:.6g} s without data_wait"
        )
    return float(most)


def _wall_clock_time(rank: Rank) -> float:
    return rank.last("TRAIN_END").seconds - rank.last("TRAIN_START").seconds - float(rank.measured["wall_drift"])


RANK_FIGURES = {
    "steps": Derivation(_steps, "number of the last STEP_END"),
    "raw_train_time": Derivation(_wall_clock_time, "from TRAIN_START to TRAIN_END by the wall clock", CLOCKS),
    "step_time_sum": Derivation(
        lambda rank: sum(stretch.seconds for stretch in stretches(rank)), "the sum of its STEP_ENDs"
    ),
    "data_wait": Derivation(
        lambda rank: sum(event.value["data_wait"] for event in rank.all("STEP_END")), "the sum of its STEP_ENDs"
    ),
    "eval_time": Derivation(
        lambda rank: float(sum(event.value["time"] for event in rank.all("EVALUATE"))), "the sum of its EVALUATEs"
    ),
    "compute_time": Derivation(_compute_time, "at most the time of its steps without data_wait"),
    "steady_time": Derivation(
        lambda rank: sum(stretch.seconds for stretch in steady(rank)), "the sum of its STEP_ENDs after the warm-up"
    ),
    "communication_wait": Derivation(
        lambda rank: sum(event.value.get("communication_wait", 0.0) for event in rank.all("STEP_END")) or None,
        "the sum of its STEP_ENDs",
    ),
    "parameters_group": Derivation(_group, "its position in the mesh of SUBMIT_INFO"),
    "loss_checksum": Derivation(_loss_checksum, "CRC-32 of the losses of its STEP_ENDs"),
    **{
        f"step_time_p{percent}": Derivation(partial(percentile, percent / 100), "its STEP_ENDs")
        for percent in (50, 90, 99)
    },
}
KNOWN_TO_THE_PROCESS = (
    *("checkpoint_time", "init_time", "e2e_time"),
    *("peak_memory", "peak_allocated", "parameters_checksum"),
)


def rank_rows(location: str, round_: Round) -> Iterator[Row]:
    """One row for each figure. It belongs to the first rank that differs, or else to the first rank."""
    ranks = [rank for rank in round_.ranks if rank.all("FINISHED")]
    for figure, derivation in RANK_FIGURES.items():
        rows = [
            recompute(location, f"rank {rank.number}: {figure}", measured[figure], derivation, rank)
            for rank in ranks
            if (measured := _measured(rank)) and figure in measured
        ]
        yield from _most_important(rows)
    for figure in KNOWN_TO_THE_PROCESS:
        if ranks and figure in (measured := _measured(ranks[0])):
            name = f"rank {ranks[0].number}: {figure}"
            yield Row(location, name, measured[figure], None, "not recomputed", INSIDE)


def _measured(rank: Rank) -> dict[str, object]:
    try:
        return dict(rank.measured)
    except (UnknownError, TypeError, AttributeError):
        return {}


def _most_important(rows: Sequence[Row]) -> Iterator[Row]:
    """All rows that differ; where none differs, the first row on behalf of all ranks."""
    if differing := [row for row in rows if row.answer == "differs"]:
        yield from differing
        return
    unknown = [row for row in rows if row.answer == "not recomputed"]
    for row in (unknown or rows)[:1]:
        all_ranks = f"; the same for all {len(rows)} ranks" if len(rows) > 1 else ""
        yield replace(row, how=f"{row.how}{all_ranks}")
