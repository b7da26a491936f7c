"""A row of the site: a job of a bundle, or figures that FlagPerf publishes. All values are ready to be shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from flagperf.contract.records import Change, Result, Statistics, Summary
from flagperf.report import cells
from flagperf.report.achievable import achievable_lines
from flagperf.results.cost import price_of_job
from flagperf.results.summary import RATES, describe, usable, verdict

RATE = "p_train"  # the throughput of the tables and plots
PUBLISHED = "published, not verified"  # in the place of a verdict
ENERGIES = ("node", "devices", "rapl")  # the first that is known counts
LONGEST_NAME = 80  # characters of the name of a page


@dataclass(frozen=True)
class Figure:
    """A value of a job, as the page of its bundle and the comparison show it."""

    name: str  # an English text of the site
    text: str
    value: float | None = None  # for ratios; None: a text only


@dataclass(frozen=True)
class Entry:
    """A row of the tables."""

    id: str
    case: str  # with size, framework and revision where these are unusual
    vendor: str
    product: str
    scale: str
    devices: int
    precision: str
    division: str
    verdict: str  # VALID, SUSPECT, INVALID, or the text of PUBLISHED
    rate: float | None  # throughput of the whole job
    unit: str
    energy: float | None = None  # J a sample
    price: float | None = None  # an hour, of all devices of the job
    share: float | None = None  # of the achievable throughput
    started: float | None = None  # seconds since the epoch
    day: str = cells.ABSENT  # of `started`, in UTC: "2026-11-23"
    network: str = ""  # hash of the network that the ranks built
    as_stated: bool | None = None  # whether the case states this network; None: the case states none
    versions: tuple[tuple[str, str], ...] = ()  # library → version
    figures: tuple[Figure, ...] = ()
    reasons: tuple[str, ...] = ()  # of the verdict
    remarks: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    swept: tuple[str, ...] = ()  # its values of a sweep: "lr=0.1"
    bundle: str = ""  # id of its page; "": figures without a bundle

    @property
    def page(self) -> str:
        """The name of the page of its case, without a suffix."""
        return re.sub(r"[^A-Za-z0-9_.]+", "-", self.case).strip("-.")[:LONGEST_NAME] or "case"

    @property
    def counts(self) -> bool:
        """Whether its throughput belongs into plots."""
        return self.rate is not None and self.verdict != "INVALID"


def entry_of(summary: Summary, entry_id: str, bundle: str) -> Entry:
    """The row of a job."""
    identity, rounds = summary.identity, usable(summary.results)
    first = (rounds or summary.results)[:1]
    built = first[0].built if first else {}
    started = [result.started for result in summary.results if result.started is not None]
    network = (built.get("network") or {}).get("tensors", "")
    stated = ((summary.config.get("fingerprint") or {}).get("network") or {}).get("tensors")
    return Entry(
        id=entry_id,
        case=cells.case(identity),
        vendor=identity.vendor,
        product=identity.hardware,
        scale=identity.scale,
        devices=identity.devices,
        precision=identity.precision,
        division=identity.division,
        verdict=verdict(summary),
        rate=_mean(summary, RATE),
        unit=identity.throughput_unit,
        energy=_over_rounds(rounds, _energy_per_sample),
        price=_price(summary),
        share=_over_rounds(rounds, lambda result: result.achievable.share if result.achievable else None),
        started=min(started, default=None),
        day=datetime.fromtimestamp(min(started), timezone.utc).strftime("%Y-%m-%d") if started else cells.ABSENT,
        network=str(network),
        as_stated=None if stated is None or not network else network == stated,
        versions=tuple((name, str(version)) for name, version in _versions(built).items() if version),
        figures=tuple(_figures(summary, rounds)),
        reasons=tuple(
            dict.fromkeys([*summary.reasons, *(text for result in summary.results for text in result.reasons)])
        ),
        remarks=(*cells.notes(summary), *achievable_lines(summary, rounds[:1])),
        changes=summary.changes,
        swept=tuple(cells.swept(summary)),
        bundle=bundle,
    )


def _versions(built: Mapping[str, Any]) -> Mapping[str, Any]:
    return (built.get("software") or {}).get("versions") or {}


def _mean(summary: Summary, name: str) -> float | None:
    figure = summary.statistics.get(name)
    return None if figure is None else _finite(figure.mean)


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _over_rounds(rounds: tuple[Result, ...], value: Callable[[Result], float | None]) -> float | None:
    """The mean of a value over the rounds that have it."""
    known = [number for result in rounds if (number := value(result)) is not None]
    return _finite(describe(known).mean) if known else None


def _energy_per_sample(result: Result) -> float | None:
    """J a sample: of whole nodes where known, else of accelerators, else of processors and memory."""
    energies = result.monitors.get("energy") or {}
    known = (energies.get(kind, {}).get("energy_per_sample_j") for kind in ENERGIES)
    return next((value for value in known if value is not None), None)


def _price(summary: Summary) -> float | None:
    given = summary.config["hardware"].get("price_per_hour")
    if not isinstance(given, (int, float, type(None))):
        raise TypeError(f"price_per_hour: {given}")
    price = price_of_job(summary.config, summary.identity.devices, summary.identity.nnodes)
    return None if price is None else _finite(price)


def _figures(summary: Summary, rounds: tuple[Result, ...]) -> Iterator[Figure]:
    """What the pages show of a job, beside its identity. Figures that the job lacks are left out."""
    identity, statistics = summary.identity, summary.statistics
    for name in (RATE, *(rate for rate in RATES if rate != RATE)):
        yield from _figure(f"throughput, {name}", statistics.get(name), f" {identity.throughput_unit}")
    yield from _text("target", cells.target(summary))
    yield from _text("final metric", cells.accuracy(summary))
    yield from _figure("time of the run", statistics.get("e2e_time"), " s")
    most = _over_rounds(rounds, lambda result: result.achievable.throughput if result.achievable else None)
    share = _over_rounds(rounds, lambda result: result.achievable.share if result.achievable else None)
    if most is not None:
        yield Figure("achievable throughput", f"{cells.number(most)} {identity.throughput_unit}", most)
        yield Figure("share of the achievable", cells.percent(share), share)
    yield from _text("MFU", cells.mfu(summary))
    yield from _text("memory of a device [GiB]", cells.memory(summary))
    energy, price = _over_rounds(rounds, _energy_per_sample), _price(summary)
    yield from _text("energy of the training [Wh]", cells.energy(summary))
    if energy is not None:
        yield Figure("energy of a sample [J]", cells.number(energy), energy)
    if price is not None:
        yield Figure("price of an hour", cells.number(price), price)
    yield from _text("batch size of a device", str(identity.train_batch_size or cells.ABSENT))
    yield Figure("rounds that count", f"{len(rounds)} / {len(summary.results)}")


def _figure(name: str, figure: Statistics | None, unit: str) -> Iterator[Figure]:
    if figure is not None:
        yield Figure(name, f"{cells.spread(figure)}{unit}", _finite(figure.mean))


def _text(name: str, text: str) -> Iterator[Figure]:
    if text != cells.ABSENT:
        yield Figure(name, text)
