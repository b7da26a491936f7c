"""The figures that stand first in a report: throughput, time to target, MFU, share of the achievable, energy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from flagperf.contract.records import Statistics, Summary, Verdict
from flagperf.report import cells, remarks
from flagperf.results.summary import describe, usable, verdict

RATE = "p_train"
FEW = 3  # so many jobs stand at the top of a report; those of a longer run stand in their own sections
ENERGIES = {"node": "of whole nodes", "devices": "of the accelerators", "rapl": "of processors and memory"}
TIMES = ((1.0, "s", 600), (60.0, "min", 180), (3600.0, "h", float("inf")))  # seconds, unit, up to so many of it


@dataclass(frozen=True)
class Tile:
    """A figure with its unit, and a few words on its meaning."""

    title: str
    value: str
    unit: str
    note: str


@dataclass(frozen=True)
class Headline:
    """The first lines on a job."""

    verdict: Verdict
    why: str  # the reasons of the verdict; with VALID: how the target was reached
    tiles: tuple[Tile, ...]
    unknown: str  # the figures that are not known, each with its reason; "" where all are


def headline(summary: Summary) -> Headline:
    """The headline of a job. A job without a round that counts has only verdict and reasons."""
    if not usable(summary.results):
        return Headline(verdict(summary), _why(summary), (), "")
    known = [*_known(summary)]
    tiles = tuple(tile for tile in known if isinstance(tile, Tile))
    missing = "; ".join(text for text in known if isinstance(text, str))
    return Headline(verdict(summary), _why(summary), tiles, f"Not known: {missing}." if missing else "")


def _why(summary: Summary) -> str:
    reasons = dict.fromkeys(
        reason for _, _, reasons_of_part, _ in remarks.problems(summary) for reason in reasons_of_part
    )
    return "; ".join(reasons) or f"Target: {cells.target(summary)}"


def _known(summary: Summary) -> Iterator[Tile | str]:
    """The tile of each figure, or a text on the reason why the figure is not known."""
    figures, rounds = summary.statistics, usable(summary.results)
    if rate := figures.get(RATE):
        devices = summary.identity.devices
        note = f"{RATE}, {devices} device{'s' if devices > 1 else ''}"
        yield Tile("throughput", cells.spread(rate), summary.identity.throughput_unit, note)
    yield _time_to_target(summary)
    notes = (result.values.get("mfu_note") for result in rounds)
    achieved = figures.get("mfu_achieved")
    of_achieved = f"; {cells.percent(achieved.mean)} of the peak that a probe measured" if achieved else ""
    if mfu := figures.get("mfu"):
        name = "HFU" if "hfu" in figures else "MFU"  # the count has the recomputed operations, too
        yield Tile(name, *_percent(mfu.mean), f"of the peak in the data sheet{of_achieved}")
    else:
        yield _absent("MFU", next(filter(None, notes), ""))
    yield _share(summary)
    if energy := cells.energy_figure(summary):
        kind, figure = energy
        yield Tile("energy", cells.spread(figure), "Wh", f"{ENERGIES[kind]}, during the training")
    else:
        yield _absent("energy", "no monitor of the power saw the whole training")


def _absent(title: str, reason: str) -> str:
    return f"{title} ({reason})" if reason else title


def _percent(share: float) -> tuple[str, str]:
    value, _, unit = cells.percent(share).partition(" ")
    return value, unit


def _time_to_target(summary: Summary) -> Tile | str:
    """Start to end of the processes, in the rounds that reached the target."""
    rounds = usable(summary.results)
    reached = [result for result in rounds if result.target_reached]
    times = [time for result in reached if (time := result.values.get("e2e_time")) is not None]
    if not times:
        return _absent("time to target", cells.target(summary))
    figure = describe(times)
    factor, unit = next((factor, unit) for factor, unit, most in TIMES if figure.mean / factor < most)
    goal = reached[0].target
    note = cells.condition(goal) if goal else ""
    some = f", in {len(reached)} of {len(rounds)} rounds" if len(reached) < len(rounds) else ""
    return Tile("time to target", cells.spread(_divided(figure, factor)), unit, note + some)


def _divided(figure: Statistics, factor: float) -> Statistics:
    stdev = None if figure.stdev is None else figure.stdev / factor
    return replace(figure, mean=figure.mean / factor, stdev=stdev)


def _share(summary: Summary) -> Tile | str:
    """The mean achieved share of the product's limit, over the rounds."""
    title = "share of the achievable"
    allowed = [result.achievable for result in usable(summary.results) if result.achievable]
    shares = [each.share for each in allowed if each.share is not None]
    if not shares:
        return title  # a sentence of achievable.py says why
    most = next(each for each in allowed if each.share is not None)
    note = f"of at most {cells.number(most.throughput)} {summary.identity.throughput_unit}, by {most.source}"
    return Tile(title, *_percent(describe(shares).mean), note)
