"""The entry for the framework-free part of the trainer. It imports torch and the engine, which takes seconds.

Each function but `engine` imports its own modules: a rank compiles flagperf's modules again (`trainer.start.uncached`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.pytorch.by_version import fill_in
from flagperf.trainer.pytorch.datasets import read_first
from flagperf.trainer.pytorch.device import open_device
from flagperf.trainer.pytorch.engine import TorchEngine
from flagperf.trainer.pytorch.parts import build_parts
from flagperf.trainer.pytorch.probe import Probe
from flagperf.trainer.pytorch.profile import ProfiledEngine
from flagperf.trainer.pytorch.ranks import World

fill_in()  # before a case is imported

__all__ = ["engine", "locate", "probe", "prove", "read_first"]


def engine(config: Mapping[str, Any]) -> TorchEngine:
    """The engine of a training on this rank; with the setting `profile`, rank 0 traces some steps.

    Raises:
        ConfigError: the configuration cannot be used here.
    """
    parts = build_parts(config)
    return ProfiledEngine(parts) if parts.settings.profile and parts.world.rank == 0 else TorchEngine(parts)


def probe(config: Mapping[str, Any], perflog: PerfLog) -> None:
    """Measure this rank's device or links, together with the other ranks, without a training.

    Raises:
        ConfigError: the device is missing.
    """
    from flagperf.trainer.pytorch.fabric import Fabric
    from flagperf.trainer.pytorch.operators import Operators
    from flagperf.trainer.pytorch.slow_links import SlowLinks

    world = World.of()
    device = open_device(config["vendor"], world)
    world.connect(device, config["vendor"]["backend"], config["process_group_timeout"])
    if config["probe"] in ("alone", "operators"):  # the peaks that operators are compared with
        perflog.log("PROBE", Probe(device, world).measure())
    if config["probe"] == "fabric":
        for curve in Fabric(config, device, world).curves():
            if world.rank == 0:  # all ranks have the same
                perflog.log("FABRIC", asdict(curve))
    if config["probe"] in ("fabric", "links"):
        for part in SlowLinks(config, device, world).search():
            if world.rank == 0:
                perflog.log("LINKS", part)
    if config["probe"] == "operators":
        for record in Operators(config, device, world).records():
            if world.rank == 0:
                perflog.log("OPERATOR", record)
    perflog.log("FINISHED")
    world.disconnect()


def prove(config: Mapping[str, Any], perflog: PerfLog) -> None:
    """Compare a vendor's own code with the case's on this rank's device, without a training.

    Raises:
        ConfigError: the code or the device cannot be used.
    """
    from flagperf.trainer.pytorch.proof import prove as compare

    perflog.log("PROOF", compare(config))
    perflog.log("FINISHED")


def locate(config: Mapping[str, Any], perflog: PerfLog) -> None:
    """Find where this rank's device first computes otherwise than the CPU, and nothing else.

    Raises:
        ConfigError: there is no such device.
    """
    from flagperf.trainer.pytorch.locate import locate as first_difference

    perflog.log("LOCATED", first_difference(config))
    perflog.log("FINISHED")
