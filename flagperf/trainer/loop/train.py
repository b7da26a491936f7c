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
    perflog.log("BUILT", _built(engine))
    trained = Training(engine, perflog).run()
    figures = finished(engine, trained, began)
    if engine.config.get("probe"):
        figures["mfu_achieved"] = _achieved(engine, perflog, figures["model_flops"])
    perflog.log("FINISHED", figures)
    engine.leave()
    trained.check_loss(engine.world.rank)


def _built(engine: Engine) -> dict[str, Any]:
    """The value of BUILT of this rank. The verdict compares it with the case."""
    return {
        "device_name": engine.device_name,
        "data": dict(engine.counts),
        **engine.identities(),
        "software": software(engine.config, engine.versions, engine.libraries),
    }


def _achieved(engine: Engine, perflog: PerfLog, model_flops: float | None) -> float | None:
    """Measure the devices after the training, and return its FLOP/s as a share of the FLOP/s that they achieve."""
    probed = engine.probe()
    perflog.log("PROBE", probed)
    rates = [rank.get(peak_name(engine.settings)) for rank in engine.world.gather(probed)]
    return utilisation(model_flops, None if None in rates else sum(rates))
