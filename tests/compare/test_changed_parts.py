"""Which part of the time to train changed."""

from __future__ import annotations

from jobs_of import job

from flagperf.compare.parts import parts_line
from flagperf.contract.records import Summary


def taking(**seconds: float) -> Summary:
    cost = {"seconds": seconds, "time_to_train": sum(seconds.values()), "energy": {}} if seconds else {}
    return job("run", [1.0], cost=cost).summary


def test_the_largest_change_comes_first() -> None:
    base, other = (
        taking(start=20.0, compute=80.0, communication=10.0),
        taking(start=19.0, compute=80.0, communication=15.5),
    )
    assert parts_line(base, other) == (
        "Time to train [s], 110 → 114.5 (+4.5): communication 10 → 15.5 (+5.5), start 20 → 19 (-1), "
        "compute 80 → 80 (+0)."
    )


def test_a_job_of_an_older_version_has_no_parts() -> None:
    assert parts_line(taking(), taking(start=1.0)) == ""
