"""The cost of the rounds of a job, as a report shows it: time by part, energy, money."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flagperf.contract.records import Result
from flagperf.report.cells import number, percent
from flagperf.results.restarts import Chains, restarts
from flagperf.results.summary import usable

ENERGIES = {"node": "whole nodes", "devices": "accelerators", "rapl": "processors and memory"}


def cost_rows(results: Iterable[Result]) -> list[dict[str, str]]:
    """A row for each round with the seconds of each part of the time to train, and their share."""
    known = [result for result in results if result.cost]
    parts = dict.fromkeys(part for result in known for part in result.cost["seconds"])
    return [
        {"round": str(result.round), "time to train [s]": number(result.cost["time_to_train"])}
        | {f"{part} [s]": _part(result.cost, part) for part in parts}
        for result in known
    ]


def _part(cost: Mapping[str, Any], part: str) -> str:
    seconds = cost["seconds"].get(part)
    share = f" ({percent(seconds / cost['time_to_train'])})" if seconds and cost["time_to_train"] else ""
    return number(seconds, 3) + share


def cost_lines(results: Iterable[Result]) -> list[str]:
    """Sentences on the energy and the price of each round, per sample and to the target."""
    return [f"Round {result.round}: {text}" for result in results if result.cost for text in _sentences(result.cost)]


def restart_lines(results: Iterable[Result], earlier: Chains) -> list[str]:
    """A sentence for each resumed round on the time of the runs before it, where these still exist."""
    return [
        f"Round {result.round} resumed an earlier run. Runs before it: {known.rounds}; their starts "
        f"{number(known.start)} s, training that counts {number(known.kept)} s, training lost after the last "
        f"checkpoint {number(known.lost)} s. Restarts and lost training took {number(known.start + known.lost)} s"
        for result in results
        if not result.restarts and (known := restarts(earlier.get(result.round, ())))
    ]


def cost_texts(results: Iterable[Result]) -> list[str]:
    """As `cost_lines`, with a line for the parts of the time to train before it, for a terminal."""
    known = [result for result in usable(results) if result.cost]
    times = [
        f"Round {result.round}: time to train {number(result.cost['time_to_train'])} s: "
        + ", ".join(f"{part} {_part(result.cost, part)}" for part in result.cost["seconds"])
        for result in known
    ]
    return [*times, *cost_lines(known)]


def _sentences(cost: Mapping[str, Any]) -> Iterator[str]:
    for kind, name in ENERGIES.items():
        known = cost["energy"].get(kind)
        if known and known["to_target_j"] is not None:
            energy = f"{number(known['to_target_j'] / 3600)} Wh to the target"
            yield f"energy of the training, {name}: {energy} (coverage {percent(known['coverage'])})"
    if price := cost.get("price"):
        text = f"price {number(price['total'])}, at {number(price['per_hour'])} per hour of the whole job"
        if price["per_sample"] is not None:
            text += f"; {number(1e6 * price['per_sample'])} for a million samples"
        yield text + (f"; {number(price['to_target'])} to the target" if price["to_target"] is not None else "")
