"""Finds the trainer of a framework: a package of flagperf.trainer that has an entry.py."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from flagperf.contract.perflog import PerfLog
from flagperf.errors import ConfigError


class Entry(Protocol):
    """The interface of a framework's entry.py."""

    def engine(self, config: Mapping[str, Any]) -> Any:
        """The engine of a training on this rank, a flagperf.trainer.loop.engine.Engine."""

    def probe(self, config: Mapping[str, Any], perflog: PerfLog) -> None:
        """Measure this rank's device, and log PROBE and FINISHED; where the framework's file says `probes`."""

    def prove(self, config: Mapping[str, Any], perflog: PerfLog) -> None:
        """Compare a vendor's own code with the case's, and log PROOF and FINISHED; where its file says `extends`."""

    def locate(self, config: Mapping[str, Any], perflog: PerfLog) -> None:
        """Find where the device first computes otherwise than the CPU, and log LOCATED and FINISHED; PyTorch alone."""

    def read_first(self, dataset: Any) -> None:
        """Read the first sample of a data set, as a training does."""


def import_framework(config: Mapping[str, Any]) -> Entry:
    """Import the trainer of the configuration's framework, which may take seconds.

    Raises:
        ConfigError: there is no trainer for it.
    """
    name = config["framework"]["name"]
    existing = sorted(path.parent.name for path in Path(__file__).parents[1].glob("*/entry.py"))
    if name not in existing:
        raise ConfigError(
            "there is no trainer for this framework",
            where="config.yaml",
            key="framework.name",
            given=name,
            allowed=", ".join(existing),
        )
    return cast(Entry, importlib.import_module(f"flagperf.trainer.{name}.entry"))
