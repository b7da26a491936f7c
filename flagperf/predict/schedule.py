"""The whole schedule of a case → the least time of its training: number of steps x least time of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flagperf.contract.extent import extent_of
from flagperf.predict.scaling import Scale

WEEK = 7 * 24 * 3600.0  # seconds that FlagPerf allows for a case on its NVIDIA reference
REFERENCE = ("vendor=nvidia", "hardware=A100", "nproc=8")  # the machine on which FlagPerf finds the targets


@dataclass(frozen=True)
class Schedule:
    """The training of a case up to its first limit, if it does not reach its target before."""

    steps: int  # optimizer steps
    limit: str  # the setting that ends the training
    seconds: float | None  # of all steps at least, without evaluations; None: figures of the product are missing

    @property
    def within_a_week(self) -> bool | None:
        """False where a training up to the limit needs longer. True: the bound does not exclude it. None: not known."""
        return None if self.seconds is None else self.seconds <= WEEK


def schedule_of(config: Mapping[str, Any], scale: Scale) -> Schedule | None:
    """The schedule of a predicted job; None for a reduced size, and where no limit is known as a number of steps."""
    steps, limit = min(_ends(config, scale.samples), default=(0, ""))
    if not limit or config["size"] != "full":
        return None
    seconds = None if scale.times is None else steps * scale.times.at_least(fused=True, overlap=True)
    return Schedule(steps, limit, seconds)


def _ends(config: Mapping[str, Any], samples: int) -> Iterator[tuple[int, str]]:
    """The steps after which each limit ends the training. `samples`: of the whole job in a step."""
    if (last := config.get("max_steps")) is not None:
        yield last, "max_steps"
    if (most := config.get("max_samples_termination")) is not None:
        yield -(-most // samples), "max_samples_termination"
    extent = extent_of(config)
    if (epochs := config.get("max_epochs")) is not None and extent is not None:
        yield epochs * max(1, extent.train // samples), "max_epochs"
