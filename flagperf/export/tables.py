"""The record of a run as tables: a row a job, a row a round, a row a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]  # column → value
OF_A_JOB = (
    *("case", "framework", "size", "revision", "vendor", "hardware", "nnodes", "nproc", "precision", "division"),
    *("train_batch_size", "verdict", "rounds_that_count", "rounds_that_reached_the_target", "throughput_unit"),
)
OF_A_ROUND = ("round", "status", "verdict", "seed", "seconds", "target_reached", "stop_reason", "device")


def jobs(record: Mapping[str, Any]) -> list[Row]:
    """Each job with the mean of each figure, and its sample standard deviation where there are several rounds."""
    return [
        {
            "run": record["run"],
            "job": job["name"],
            **{column: job[column] for column in OF_A_JOB},
            **{
                f"{figure}{ending}": found[statistic]
                for figure, found in job["figures"].items()
                for statistic, ending in (("mean", ""), ("stdev", "_stdev"))
            },
        }
        for job in record["jobs"]
    ]


def rounds(record: Mapping[str, Any]) -> list[Row]:
    """Each round with its figures, and its energy in joules."""
    return [
        {
            "run": record["run"],
            "job": job["name"],
            **{column: one[column] for column in OF_A_ROUND},
            "reasons": "; ".join(one["reasons"]),
            **one["figures"],
            **{f"energy_{kind}_j": found["energy_j"] for kind, found in one["energy"].items()},
        }
        for job in record["jobs"]
        for one in job["rounds"]
    ]


def changes(record: Mapping[str, Any]) -> list[Row]:
    """What each job changes against its case; values that are no number are text."""
    return [
        {"run": record["run"], "job": job["name"], **{name: _cell(value) for name, value in change.items()}}
        for job in record["jobs"]
        for change in job["changes"]
    ]


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else str(value)


def columns(rows: Sequence[Row]) -> list[str]:
    """The columns of all rows, in the order they come."""
    return list(dict.fromkeys(column for row in rows for column in row))
