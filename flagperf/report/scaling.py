"""How a case gets faster with more devices: speed-up and efficiency of its scales against the smallest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flagperf.report import cells
from flagperf.results.summary import verdict
from flagperf.results.values import Summary

RATE = "p_train"  # the figure that is held against the smallest scale's
NOTE = f"Speed-up: {RATE} over that of the smallest scale. Efficiency: speed-up over the growth in devices."


def scaling_rows(summaries: Iterable[Summary]) -> list[dict[str, str]]:
    """A line for each job of a case that is there in several scales, the smallest first."""
    groups: dict[tuple[str, ...], list[Summary]] = {}
    for summary in summaries:
        if RATE in summary.statistics:
            groups.setdefault(_alike(summary), []).append(summary)
    return [row for jobs in groups.values() if len({_devices(job) for job in jobs}) > 1 for row in _rows(jobs)]


def _rows(jobs: Sequence[Summary]) -> list[dict[str, str]]:
    ordered = sorted(jobs, key=lambda job: (_devices(job), job.config["nnodes"]))
    least = ordered[0]
    found = []
    for job in ordered:
        speed_up = job.statistics[RATE].mean / least.statistics[RATE].mean
        growth = _devices(job) / _devices(least)
        found.append(
            {
                "case": cells.case(job),
                "scale": "{nnodes}x{nproc}".format(**job.config),
                "devices": str(_devices(job)),
                "batch a device": str(job.config.get("train_batch_size", cells.ABSENT)),
                RATE: cells.spread(job.statistics[RATE]),
                "unit": job.config["throughput_unit"],
                "speed-up": f"{speed_up:.2f}",
                "efficiency": cells.percent(speed_up / growth),
                "verdict": verdict(job),
            }
        )
    return found


def _devices(summary: Summary) -> int:
    return int(summary.config["nnodes"]) * int(summary.config["nproc"])


def _alike(summary: Summary) -> tuple[str, ...]:
    """What jobs must have in common: case with its size and framework, product, precision, and a sweep's values."""
    config = summary.config
    swept = summary.results[0].sweep if summary.results else {}
    names = (config["hardware"]["name"], config["precision"])
    return cells.case(summary), *names, *(f"{key}={value}" for key, value in sorted(swept.items()))
