"""Figures for buyers: a line for each figure and a column for each job, with ratios to the first job."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flagperf.compare.jobs import NamedJob
from flagperf.contract.records import Result, Statistics, Summary
from flagperf.report import cells
from flagperf.results.cost import price_of_job
from flagperf.results.summary import describe, usable

RATE = "p_train"
ENERGY = {"node": "whole nodes", "rapl": "processors and memory", "devices": "accelerators"}
NOTE = (
    "Each figure is the arithmetic mean over the rounds, and below it its ratio to the first column. Time to target: "
    "start to end of the processes, in rounds that reached it. MFU: against the peak of the data sheet, unless it says "
    "otherwise. Power and energy: during the training. Price: of the whole job, by the file of cluster or hardware."
)


@dataclass(frozen=True)
class Cell:
    """A figure of a job."""

    text: str
    ratio: str  # to the first job; "" where either is not known
    share: str  # of the largest figure of the line, for CSS


@dataclass(frozen=True)
class Line:
    """A figure of all jobs."""

    name: str
    better: str  # which value is better: more, less
    cells: tuple[Cell, ...]


def lines(jobs: Sequence[NamedJob]) -> list[Line]:
    """Throughput, energy, time to target, MFU, power and price of jobs. A figure that no job has is left out."""
    return [line for line in _lines([job.summary for job in jobs]) if any(cell.share != "0%" for cell in line.cells)]


def _lines(jobs: Sequence[Summary]) -> Iterator[Line]:
    unit = jobs[0].identity.throughput_unit
    yield _line(f"throughput, {RATE} [{unit}]", "more", jobs, _figure(RATE))
    for kind, devices in ENERGY.items():
        yield _line(f"energy per sample, {devices} [J]", "less", jobs, _energy(kind, "energy_per_sample_j"))
    yield _line("time to target [s]", "less", jobs, _time_to_target)
    yield _line("MFU", "more", jobs, _figure("mfu"), _percent)
    yield _line("MFU of what the devices achieve", "more", jobs, _figure("mfu_achieved"), _percent)
    for kind, devices in ENERGY.items():
        yield _line(f"power, {devices} [W]", "less", jobs, _power(kind))
    prices = [_price(job) for job in jobs]
    yield _line("price of a million samples", "less", jobs, _cost("per_sample", 1e6))
    yield _line("price to target", "less", jobs, _cost("to_target"))
    yield _made("price per hour", "less", [None if price is None else describe([price]) for price in prices])


Value = Callable[[Result], float | None]


def _line(
    name: str,
    better: str,
    jobs: Sequence[Summary],
    value: Value,
    shown: Callable[[Statistics], str] = cells.spread,
) -> Line:
    values_of_jobs = [[known for result in usable(job.results) if (known := value(result)) is not None] for job in jobs]
    return _made(name, better, [describe(values) if values else None for values in values_of_jobs], shown)


def _made(
    name: str,
    better: str,
    figures: Sequence[Statistics | None],
    shown: Callable[[Statistics], str] = cells.spread,
) -> Line:
    first, most = figures[0], max((figure.mean for figure in figures if figure), default=0.0)

    def cell(figure: Statistics | None) -> Cell:
        if figure is None or not math.isfinite(most) or most <= 0:
            return Cell(cells.ABSENT, "", "0%")
        ratio = f"×{figure.mean / first.mean:.2f}" if first and first.mean else ""
        return Cell(shown(figure), ratio, f"{100 * figure.mean / most:.1f}%")

    return Line(name, f"{better} is better", tuple(map(cell, figures)))


def _percent(figure: Statistics) -> str:
    return cells.percent(figure.mean)


def _figure(name: str) -> Value:
    return lambda result: result.values.get(name)


def _time_to_target(result: Result) -> float | None:
    return result.values.get("e2e_time") if result.target_reached else None


def _energy(kind: str, key: str) -> Value:
    return lambda result: result.monitors.get("energy", {}).get(kind, {}).get(key)


def _power(kind: str) -> Value:
    """The mean power of the whole job over the training, in W."""

    def power(result: Result) -> float | None:
        energy, seconds = _energy(kind, "energy_j")(result), result.values.get("raw_train_time")
        return energy / seconds if energy and seconds else None

    return power


def _cost(name: str, factor: float = 1.0) -> Value:
    def cost(result: Result) -> float | None:
        price = result.cost.get("price", {}).get(name)
        return None if price is None else factor * float(price)

    return cost


def _price(job: Summary) -> float | None:
    """The price per hour of the whole job; None: not known."""
    return price_of_job(job.config, job.identity.devices, job.identity.nnodes)
