"""The target of a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from flagperf.errors import ConfigError

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Target:
    """Metric, value and direction that the case must reach; `also`: further metrics that must do so with it."""

    metric: str
    value: float
    direction: Direction
    unit: str = ""
    also: Mapping[str, float] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float]:
        """Metric → value that it must reach, of all metrics."""
        return {self.metric: self.value, **self.also}

    def missed(self, metrics: Mapping[str, float | None]) -> list[str]:
        """The metrics that miss their goal; a metric that is absent, None or NaN misses it."""
        return [name for name, goal in self.values.items() if not self._good(metrics.get(name), goal)]

    def reached(self, metrics: Mapping[str, float | None]) -> bool:
        """True when no metric is missed."""
        return not self.missed(metrics)

    def _good(self, value: float | None, goal: float) -> bool:
        if value is None:
            return False
        return value >= goal if self.direction == "higher" else value <= goal


def check_target(target: Target | None, metrics: Iterable[str]) -> None:
    """Refuse a target about a metric that is not among those of the evaluation."""
    if target is None:
        return
    for name in target.values:
        if name not in metrics:
            raise ConfigError(
                "the evaluation gives no such metric",
                where="config.yaml",
                key="target.metric" if name == target.metric else "target.also",
                given=name,
                allowed=", ".join(metrics),
            )
