"""The record of a run as tables: of its jobs, its rounds, and its changes."""

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
    """A row for each job, with mean and sample standard deviation of each figure."""
    return [
        {
            "run": record["run"],
            "job": job["name"],
            **{column: job[column] for column in OF_A_JOB},
            **{
                f"{figure}{ending}": statistics[statistic]
                for figure, statistics in job["figures"].items()
                for statistic, ending in (("mean", ""), ("stdev", "_stdev"))
            },
        }
        for job in record["jobs"]
    ]


def rounds(record: Mapping[str, Any]) -> list[Row]:
    """A row for each round, with its figures, and its energy in joules."""
    return [
        {
            "run": record["run"],
            "job": job["name"],
            **{column: round_[column] for column in OF_A_ROUND},
            "reasons": "; ".join(round_["reasons"]),
            **round_["figures"],
            **{f"energy_{kind}_j": figures["energy_j"] for kind, figures in round_["energy"].items()},
        }
        for job in record["jobs"]
        for round_ in job["rounds"]
    ]


def changes(record: Mapping[str, Any]) -> list[Row]:
    """A row for each change of a job against its case. Values that are no numbers become text."""
    return [
        {"run": record["run"], "job": job["name"], **{name: _cell(value) for name, value in change.items()}}
        for job in record["jobs"]
        for change in job["changes"]
    ]


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else str(value)


def columns(rows: Sequence[Row]) -> list[str]:
    """The columns of all rows, in the order of their first appearance."""
    return list(dict.fromkeys(column for row in rows for column in row))
