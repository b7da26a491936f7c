"""The measured figures of runs at some scales, beside the predicted figures of these scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from flagperf.contract.mesh import Mesh
from flagperf.contract.records import Result, Summary
from flagperf.errors import ConfigError
from flagperf.results.summary import usable

WHOLE_NETWORK = {"dp_replicate": -1}  # the mesh of a run without a strategy


@dataclass(frozen=True)
class Measured:
    """The throughput of a run."""

    nnodes: int
    nproc: int
    mesh: Mesh
    rate: float  # samples/s of the whole job (p_train), the mean of its rounds

    @property
    def devices(self) -> int:
        """Ranks of the run."""
        return self.nnodes * self.nproc


def measured_scales(summaries: Iterable[Summary], config: Mapping[str, Any]) -> list[Measured]:
    """The throughputs of the jobs that have rounds which count, the fewest devices first.

    Args:
        config: of the prediction: its case, size and product.

    Raises:
        ConfigError: a job is of another case, size or product, or no round counts.
    """
    measured = [scale for summary in summaries for scale in _scale(summary, config)]
    if not measured:
        raise ConfigError("the runs have no throughput of a round that counts", key="measured")
    return sorted(measured, key=lambda scale: scale.devices)


def _scale(summary: Summary, config: Mapping[str, Any]) -> Iterator[Measured]:
    trained, predicted = _identity(summary.config), _identity(config)
    if trained != predicted:
        raise ConfigError(
            "the measured run is of another case, size or product",
            where=summary.name,
            key="measured",
            given=trained,
            allowed=predicted,
        )
    rates = [rate for result in usable(summary.results) if (rate := _samples_per_second(result)) is not None]
    if rates:
        sides = (summary.config.get("parallel") or {}).get("mesh") or WHOLE_NETWORK
        identity = summary.identity
        yield Measured(identity.nnodes, identity.nproc, Mesh.of(sides, identity.devices), fmean(rates))


def _identity(config: Mapping[str, Any]) -> str:
    return f"{config['case']}, {config['size']}, {config['hardware']['name']}"


def _samples_per_second(result: Result) -> float | None:
    """p_train in samples/s; None where the round has no figure. p_train itself may be in another unit, as tokens/s."""
    rate, samples, units = (result.values.get(name) for name in ("p_train", "num_trained_samples", "num_trained_units"))
    return None if rate is None or not samples or not units else rate * samples / units
