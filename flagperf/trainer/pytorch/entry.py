"""What the framework-free part of the trainer calls. Its import brings in torch and the loop, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.identity.hardware import peak_name
from flagperf.trainer.loop.figures import utilisation
from flagperf.trainer.loop.finish import finished
from flagperf.trainer.pytorch.built import built
from flagperf.trainer.pytorch.by_version import fill_in
from flagperf.trainer.pytorch.datasets import read_first_samples
from flagperf.trainer.pytorch.device import open_device
from flagperf.trainer.pytorch.loop import Training
from flagperf.trainer.pytorch.parts import Parts, build_parts
from flagperf.trainer.pytorch.probe import Probe
from flagperf.trainer.pytorch.proof import prove as compare
from flagperf.trainer.pytorch.ranks import World

fill_in()  # before a case is imported

__all__ = ["probe", "prove", "read_first_samples", "train"]


def train(config: Mapping[str, Any], perflog: PerfLog, began: float) -> None:
    """Train on this rank, and log FINISHED. `began`: when the process began, by time.perf_counter.

    Raises:
        ConfigError: the configuration cannot be used here.
        TrainingError: the loss became NaN or infinite.
    """
    parts = build_parts(config)
    perflog.log("BUILT", built(parts))
    trained = Training(parts, perflog).run()
    from flagperf.trainer.pytorch.finish import own  # imported late: the first step should not wait for it

    figures = finished(config, parts.settings, parts.world, trained, own(parts), began)
    if config.get("probe"):
        figures["mfu_achieved"] = _probed(parts, perflog, figures["model_flops"])
    perflog.log("FINISHED", figures)
    parts.world.disconnect()
    trained.check_loss(parts.world.rank)


def _probed(parts: Parts, perflog: PerfLog, model_flops: float | None) -> float | None:
    """Measure the devices now that the training is over; its FLOP/s as a share of what they achieve together."""
    own = Probe(parts.device, parts.world).measure()
    perflog.log("PROBE", own)
    achieved = [found.get(peak_name(parts.settings)) for found in parts.world.gather(own)]
    return utilisation(model_flops, None if None in achieved else sum(achieved))


def probe(config: Mapping[str, Any], perflog: PerfLog) -> None:
    """Measure this rank's device, together with the other ranks, and nothing else.

    Raises:
        ConfigError: there is no such device.
    """
    world = World.of()
    device = open_device(config["vendor"], world)
    world.connect(device, config["vendor"]["backend"], config["process_group_timeout"])
    perflog.log("PROBE", Probe(device, world).measure())
    perflog.log("FINISHED")
    world.disconnect()


def prove(config: Mapping[str, Any], perflog: PerfLog) -> None:
    """Compare a vendor's own code with the case's on this rank's device, and nothing else.

    Raises:
        ConfigError: the code or the device cannot be used.
    """
    perflog.log("PROOF", compare(config))
    perflog.log("FINISHED")
