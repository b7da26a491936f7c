"""What a training costs: the time of its parts, energy and money, per sample and to the target."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

RESTARTS = "restarts"  # the phase with all attempts of a round before the last one
AFTER = ("stop", "collect", "clean", "first_step", RESTARTS)  # phases that are no part of the start
HOUR = 3600.0  # s


def cost_of(
    values: Mapping[str, Any],
    phases: Mapping[str, Mapping[str, float]],
    energy: Mapping[str, Mapping[str, Any]],
    price_per_hour: float | None,
    target_reached: bool | None,
) -> dict[str, Any]:
    """The cost of a round.

    Args:
        values: FINISHED; empty: the round has no cost.
        phases: node → phase → seconds.
        energy: of the job (`flagperf.results.monitors.job_energy`).
        price_per_hour: of the whole job; None: not known.
        target_reached: as in the Result.

    Returns:
        - `seconds`: part → seconds. All parts together are the time from the command to the end of the training.
        - `time_to_train`: their sum.
        - `energy`: kind → `per_sample_j`, `to_target_j` and `coverage`, as far as they are known.
        - `price`: `per_hour`, `total`, `per_sample`, `to_target`; absent without a price.
    """
    parts = seconds_of_parts(values, phases)
    if not parts:
        return {}
    total = math.fsum(parts.values())
    cost: dict[str, Any] = {"seconds": parts, "time_to_train": total, "energy": {}}
    is_whole = RESTARTS not in parts  # the monitors of the last attempt saw the whole training
    for kind, known in energy.items():
        if "energy_j" in known:
            figures = {"per_sample_j": known.get("energy_per_sample_j"), "coverage": known["coverage"]}
            cost["energy"][kind] = {
                **figures,
                "to_target_j": known["energy_j"] if is_whole and target_reached else None,
            }
    if price_per_hour is not None:
        price = price_per_hour * total / HOUR
        samples = values.get("num_trained_samples") if is_whole else None
        cost["price"] = {
            "per_hour": price_per_hour,
            "total": price,
            "per_sample": price / samples if samples else None,
            "to_target": price if target_reached else None,
        }
    return cost


def seconds_of_parts(values: Mapping[str, Any], phases: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Part → seconds, in the order of a report. The parts of the training are means over the ranks."""
    ranks = values.get("ranks") or []
    if not ranks:
        return {}
    total, waits = _mean(ranks, "raw_train_time"), _mean(ranks, "communication_wait")
    data, computing = _mean(ranks, "data_wait"), _mean(ranks, "compute_time")
    evaluation, checkpoints = _mean(ranks, "eval_time"), _mean(ranks, "checkpoint_time")
    start = max((_start(of_node) for of_node in phases.values()), default=values.get("init_time") or 0.0)
    before = max((of_node.get(RESTARTS, 0.0) for of_node in phases.values()), default=0.0)
    parts = {
        **({RESTARTS: before} if before else {}),
        "start": start,
        "data": data,
        "compute": computing - waits,
        "communication": waits,
        "evaluation": evaluation,
        "checkpoints": checkpoints,
    }
    if not any(rank.get("communication_wait") for rank in ranks) and len(ranks) > 1:
        del parts["communication"]  # not measured: it is a part of compute
    return {**parts, "other": max(0.0, total - data - computing - evaluation - checkpoints)}


def price_of_job(config: Mapping[str, Any], devices: int, nnodes: int) -> float | None:
    """The price of an hour of the whole job: of nodes, by the cluster's file; else of devices, by the hardware's."""
    for section, count in (("cluster", nnodes), ("hardware", devices)):
        price = (config.get(section) or {}).get("price_per_hour")
        if isinstance(price, (int, float)):
            return float(price) * count
    return None


def _start(phases: Mapping[str, float]) -> float:
    return math.fsum(seconds for phase, seconds in phases.items() if phase not in AFTER)


def _mean(ranks: Iterable[Mapping[str, Any]], name: str) -> float:
    return statistics.fmean(float(rank.get(name) or 0.0) for rank in ranks)
