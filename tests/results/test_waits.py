"""Which rank has not arrived in a collective, from the waits that the other ranks logged."""

from __future__ import annotations

import pytest

from flagperf.contract.records import LateRank
from flagperf.results.waits import Waits

Wait = tuple[float, int, str, int, list[int], float]  # time, rank, collective, number, ranks, seconds of the wait
ALL = [0, 1, 2, 3]


def reported(*ranks: int, at: float = 5, name: str = "all_reduce", number: int = 9, of: list[int] = ALL) -> list[Wait]:
    """The first and the second event of a wait on some ranks; the second comes when all have logged the first."""
    return [(at * times + rank / 4, rank, name, number, of, at * times) for times in (1, 2) for rank in ranks]


@pytest.mark.parametrize(
    ("waits", "late"),
    [
        pytest.param(reported(0, 1, 3), [LateRank(2, 41, 41, 10.0, collective="all_reduce")], id="one of four"),
        pytest.param(
            reported(1, 3),
            [LateRank(rank, 41, 41, 10.0, collective="all_reduce") for rank in (0, 2)],
            id="two of four",
        ),
        pytest.param(reported(0, 1, 3)[:3], [], id="the wait ended before a second event"),
        pytest.param(reported(*ALL), [], id="all wait: the device computes, or the ranks wait for each other"),
        pytest.param(
            [*reported(0, of=[0, 1]), *reported(1, name="all_gather", number=4, of=[1, 3])],
            [LateRank(3, 41, 41, 10.0, collective="all_gather")],
            id="a rank that waits for another rank is not late",
        ),
    ],
)
def test_ranks_that_have_not_arrived(waits: list[Wait], late: list[LateRank]) -> None:
    detector = Waits()
    for rank in ALL:
        detector.step_ended(rank, 40)
    found: list[LateRank] = []
    for time, rank, name, number, ranks, seconds in sorted(waits):
        value = {"collective": name, "number": number, "ranks": ranks, "seconds": seconds}
        found += detector.observe(rank, value, 1_000_000.0 + time)
    assert found == late
