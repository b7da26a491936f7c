"""FINISHED: the figures of the whole job from those of its ranks. docs/perflog.md explains each."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RankFigures:
    """The measurements of one rank; times in seconds, memory in GiB."""

    rank: int
    host: str
    samples: int
    units: int
    steps: int
    raw_train_time: float
    step_time_sum: float
    compute_time: float
    data_wait: float
    eval_time: float
    checkpoint_time: float
    init_time: float
    e2e_time: float
    wall_drift: float  # wall clock minus monotonic clock over the training
    steady_units: int  # of the steps after the warm-up
    steady_time: float
    step_time_p50: float | None
    step_time_p90: float | None
    step_time_p99: float | None
    peak_memory: float
    loss_checksum: str
    parameters_checksum: str
    communication_wait: float | None = None  # for other ranks; None: not measured
    peak_allocated: float | None = None  # GiB of peak_memory that tensors held; None: not known
    parameters_group: int = 0  # ranks with the same number hold the same parameters, and the same checksum
    data_files: int | None = None  # on the first rank of each node: number of files of the case's data …
    data_fingerprint: str | None = None  # … and their fingerprint


def percentiles(times: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """p50, p90 and p99, interpolated between the two nearest values."""
    if len(times) < 2:
        return (times[0],) * 3 if times else (None,) * 3
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return cuts[49], cuts[89], cuts[98]


def job_figures(ranks: Sequence[RankFigures]) -> dict[str, Any]:
    """Figures of the job: counts are sums over the ranks, seconds those of the slowest rank."""
    samples, units = sum(rank.samples for rank in ranks), sum(rank.units for rank in ranks)
    raw = max(rank.raw_train_time for rank in ranks)
    no_eval = max(rank.raw_train_time - rank.eval_time - rank.checkpoint_time for rank in ranks)
    compute = max(rank.compute_time for rank in ranks)
    return {
        "e2e_time": max(rank.e2e_time for rank in ranks),
        "init_time": max(rank.init_time for rank in ranks),
        "raw_train_time": raw,
        "train_no_eval_time": no_eval,
        "pure_training_computing_time": compute,
        "training_sequences_per_second": _rate(samples, raw),
        "p_whole": _rate(units, raw),
        "p_train": _rate(units, no_eval),
        "p_core": _rate(units, compute),
        "num_trained_samples": samples,
        "num_trained_units": units,
        "steady_throughput": _rate(sum(r.steady_units for r in ranks), max(r.steady_time for r in ranks)),
        "step_time_p50": _slowest(rank.step_time_p50 for rank in ranks),
        "step_time_p90": _slowest(rank.step_time_p90 for rank in ranks),
        "step_time_p99": _slowest(rank.step_time_p99 for rank in ranks),
        "data_wait": statistics.fmean(rank.data_wait for rank in ranks),
        "communication_wait": _mean(rank.communication_wait for rank in ranks),
        "eval_time": max(rank.eval_time for rank in ranks),
        "checkpoint_time": max(rank.checkpoint_time for rank in ranks),
        "peak_memory": max(rank.peak_memory for rank in ranks),
        "ranks": [asdict(rank) for rank in ranks],
    }


def metric_figures(metrics: Mapping[str, float], target_metric: str | None) -> dict[str, float | None]:
    """`final_<metric>` of the last evaluation; `final_accuracy` is the target's metric or else the first accuracy."""
    final: dict[str, float | None] = {} if target_metric is None else {f"final_{target_metric}": None}
    accuracy = _accuracy(metrics, target_metric)
    final.update({f"final_{name}": value for name, value in metrics.items()})
    return {**final, "final_accuracy": None if accuracy is None else metrics[accuracy]}


def step_metric(metrics: Mapping[str, float], target_metric: str | None) -> dict[str, float]:
    """FlagPerf's `eval_<metric>` in a STEP_END: the target's metric or else the first accuracy, if there is one."""
    name = target_metric if target_metric in metrics else _accuracy(metrics, target_metric)
    return {} if name is None else {name if name.startswith("eval_") else f"eval_{name}": metrics[name]}


def _accuracy(metrics: Mapping[str, float], target_metric: str | None) -> str | None:
    names = sorted(metrics, key=lambda name: name != target_metric)
    return next((name for name in names if name.startswith("acc") or name.endswith("accuracy")), None)


def utilisation(model_flops: float | None, peak: float | None) -> float | None:
    """Model FLOPS utilisation: the FLOP/s that the model needs as a share of all devices' peak; None: unknown."""
    return model_flops / peak if model_flops is not None and peak else None


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count and seconds > 0 else None


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None where none is known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _slowest(values: Any) -> float | None:
    return max((value for value in values if value is not None), default=None)
