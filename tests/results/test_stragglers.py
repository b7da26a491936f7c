"""Slow and late ranks, from step records: of a recorded run, and made up."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flagperf.contract.records import LateRank, SlowRank
from flagperf.results.stragglers import Finding, Stragglers, stragglers

RECORDED = Path(__file__).with_name("own_times.yaml")
Record = tuple[int, dict[str, Any]]


def records(
    own_times: list[list[float]], log_freq: int = 10, slow: int | None = None, after: int = 0
) -> Iterator[Record]:
    """The step records of ranks that need these seconds for each step. From a step on the slow rank needs 10 % more."""
    for last in range(log_freq, len(own_times[0]) + 1, log_freq):
        steps = range(last - log_freq, last)
        own = [[t * (1.1 if rank == slow and at >= after else 1) for at in steps for t in [times[at]]]
               for rank, times in enumerate(own_times)]  # fmt: skip
        longest = [max(of_step) for of_step in zip(*own, strict=True)]
        for rank, times in enumerate(own):
            waits = [step - time for step, time in zip(longest, times, strict=True)]
            yield (
                rank,
                {
                    "step": last,
                    "step_time": statistics.fmean(longest) + 0.001,
                    "own_time": sorted(times)[len(times) // 2],
                    "communication_wait": sum(waits) + 0.001 * log_freq,
                    "data_wait": 0.0,
                },
            )


def steady(ranks: int, steps: int) -> list[list[float]]:
    """Own times that fluctuate by 1 %, the same in each run."""
    return [[0.1 * (1 + 0.01 * ((step * 7 + rank * 3) % 11 - 5) / 5) for step in range(steps)] for rank in range(ranks)]


@pytest.mark.parametrize("log_freq", [1, 10, 25])
@pytest.mark.parametrize("run", list(yaml.safe_load(RECORDED.read_text())))
def test_a_normal_run_names_nobody(run: str, log_freq: int) -> None:
    milliseconds = yaml.safe_load(RECORDED.read_text())[run]
    own_times = [[int(word) / 1e5 for word in words.split()] for words in milliseconds]
    assert stragglers(records(own_times, log_freq), len(own_times), warmup_steps=5) == ()


@pytest.mark.parametrize("log_freq", [1, 10, 25])
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_rank_that_is_slower_by_a_tenth_is_named_within_50_steps(ranks: int, log_freq: int) -> None:
    detector = Stragglers(ranks, warmup_steps=5)
    named: list[tuple[int, Finding]] = []
    for rank, record in records(steady(ranks, 600), log_freq, slow=1, after=300):
        named += [(record["step"], finding) for finding in detector.observe(rank, record)]
    ((step, slow),) = named
    assert isinstance(slow, SlowRank)
    assert (300 < step <= 350, slow.rank, slow.last_step, slow.first_step) == (True, 1, step, step - 49)
    assert [slow.excess, slow.own_time, slow.others_time] == pytest.approx([0.1, 0.11, 0.1], rel=0.1)
    assert 590 < detector.slow[0].last_step <= 600


@pytest.mark.parametrize(("slow_steps", "named"), [(150, []), (400, [True])], ids=["3 s", "8 s"])
def test_short_steps_must_be_slow_for_seconds(slow_steps: int, named: list[bool]) -> None:
    """Another program of the host takes a processor for some seconds."""
    own_times = [[time / 5 for time in of_rank] for of_rank in steady(2, 1200)]
    own_times[1] = [time * (1.2 if 600 <= step < 600 + slow_steps else 1) for step, time in enumerate(own_times[1])]
    slow = stragglers(records(own_times), 2, warmup_steps=0)
    assert [600 < finding.first_step <= 650 for finding in slow] == named


def test_a_rank_that_recovers_has_its_last_slow_step() -> None:
    own_times = steady(2, 600)
    own_times[1] = [time * (1.2 if 200 <= step < 400 else 1) for step, time in enumerate(own_times[1])]
    (slow,) = stragglers(records(own_times), 2, warmup_steps=5)
    assert isinstance(slow, SlowRank)
    assert (slow.rank, slow.first_step, slow.last_step) == (1, 201, 420)


def test_a_wait_that_ended_is_told_with_the_rank_that_was_late() -> None:
    own_times = [[0.1] * 200 for _ in range(3)]
    own_times[2][123] = 9.0
    (late,) = stragglers(records(own_times), 3, warmup_steps=5)
    assert late == LateRank(2, 121, 130, seconds=late.seconds)
    assert late.seconds == pytest.approx(8.9)


def test_records_without_a_measured_wait_name_nobody() -> None:
    without = [(rank, {**record, "own_time": None}) for rank, record in records(steady(2, 600), slow=1, after=0)]
    assert stragglers(without, 2, warmup_steps=5) == ()
