"""One training on this rank, from BUILT to FINISHED."""

from __future__ import annotations

from typing import Any

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.identity.hardware import peak_name
from flagperf.trainer.identity.software import software
from flagperf.trainer.loop.engine import Engine
from flagperf.trainer.loop.figures import utilisation
from flagperf.trainer.loop.finish import finished
from flagperf.trainer.loop.training import Training


def train(engine: Engine, perflog: PerfLog, began: float) -> None:
    """Train, and log FINISHED. `began`: when the process began, by time.perf_counter.

    Raises:
        ConfigError: the configuration cannot be used here.
        TrainingError: the loss became NaN or infinite.
    """
    perflog.log("BUILT", built(engine))
    trained = Training(engine, perflog).run()
    figures = finished(engine, trained, began)
    if engine.config.get("probe"):
        figures["mfu_achieved"] = achieved(engine, perflog, figures["model_flops"])
    perflog.log("FINISHED", figures)
    engine.leave()
    trained.check_loss(engine.world.rank)


def built(engine: Engine) -> dict[str, Any]:
    """The value of BUILT, of this rank. The verdict holds it against the case."""
    return {
        "device_name": engine.device_name,
        "data": dict(engine.counts),
        **engine.identities(),
        "software": software(engine.config, engine.versions, engine.libraries),
    }


def achieved(engine: Engine, perflog: PerfLog, model_flops: float | None) -> float | None:
    """Measure the devices now that the training is over; its FLOP/s as a share of what they achieve together."""
    own = engine.probe()
    perflog.log("PROBE", own)
    rates = [found.get(peak_name(engine.settings)) for found in engine.world.gather(own)]
    return utilisation(model_flops, None if None in rates else sum(rates))
