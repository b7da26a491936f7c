"""FINISHED: the measurements of a training, from all its ranks."""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Mapping
from typing import Any

import flagperf
from flagperf.contract.data_files import data_fingerprint
from flagperf.contract.pipeline import bubble_of
from flagperf.trainer.identity.hardware import peak_flops, peak_name
from flagperf.trainer.loop.engine import Engine
from flagperf.trainer.loop.figures import RankFigures, job_figures, metric_figures, percentiles, utilisation
from flagperf.trainer.loop.trained import FrameworkFigures, Trained

FORMULAS = {  # operations of a unit's training → the MFU by them
    "formula_flops_6n": "mfu_6n",
    "formula_flops_causal": "mfu_causal",
    "formula_flops": "mfu_formula",
}


def finished(engine: Engine, trained: Trained, began: float) -> dict[str, Any]:
    """The value of FINISHED, the same on every rank. `began`: when the process began, by time.perf_counter."""
    config, settings, framework = engine.config, engine.settings, engine.framework_figures(trained)
    gathered = engine.world.gather((_rank_figures(engine, trained, framework, began), framework.forward))
    job = job_figures([figures for figures, _ in gathered])
    forward, rate = gathered[0][1], job["steady_throughput"] or job["p_train"]
    return {
        **job,
        **metric_figures(trained.metrics, settings.target.metric if settings.target else None),
        "throughput_unit": config["throughput_unit"],
        "global_samples": trained.position.samples,
        "global_steps": trained.position.step,
        "resumed_from_step": trained.resumed_from or None,
        "epochs": trained.position.epoch - 1,
        "converged": trained.stop_reason == "target",
        "stop_reason": trained.stop_reason,
        "final_loss": trained.loss,
        "target": config["target"] if trained.target else None,
        "sample_data": trained.sample_data,
        "synthetic": settings.synthetic,
        **mfu(engine, framework.formula, forward, rate),
        **({} if (share := bubble_of(config)) is None else {"pipeline_bubble": share}),
        "example_flops": forward["example"],
        "example_note": forward["example_note"],
        "parameters": framework.parameters,
        "frozen_checksum": framework.frozen_checksum,
        "peak_memory_kind": framework.peak_memory_kind,
        "warmup_steps": settings.warmup_steps,
        "clock": trained.clock,
        **trained.comparisons,
        "precision": settings.precision,
        "device_name": engine.device_name,
        "versions": {"flagperf": flagperf.__version__, **engine.versions, "python": platform.python_version()},
    }


def _rank_figures(engine: Engine, trained: Trained, framework: FrameworkFigures, began: float) -> RankFigures:
    """The measurements of this rank; on the first rank of a node also the fingerprint of the data's files."""
    e2e_time = time.perf_counter() - began  # without the time to list the files
    ranks, settings = engine.world, engine.settings
    files = data_fingerprint(engine.config) if ranks.local_rank == 0 else None
    steady_units, steady_times = trained.steady(settings.warmup_steps)
    p50, p90, p99 = percentiles(steady_times)
    return RankFigures(
        rank=ranks.rank,
        host=socket.gethostname(),
        samples=trained.samples,
        units=trained.units,
        steps=len(trained.step_times),
        raw_train_time=trained.train_time,
        step_time_sum=sum(trained.step_times),
        compute_time=trained.compute_time,
        data_wait=trained.data_wait,
        eval_time=trained.eval_time,
        checkpoint_time=trained.checkpoint_time,
        init_time=trained.began - began,
        e2e_time=e2e_time,
        wall_drift=trained.wall_time - trained.train_time,
        steady_units=steady_units,
        steady_time=sum(steady_times),
        step_time_p50=p50,
        step_time_p90=p90,
        step_time_p99=p99,
        peak_memory=framework.peak_memory,
        loss_checksum=f"{trained.loss_checksum:08x}",
        parameters_checksum=framework.parameters_checksum,
        communication_wait=trained.communication_wait,
        peak_allocated=framework.peak_allocated,
        parameters_group=framework.parameters_group,
        data_files=files.files if files else None,
        data_fingerprint=files.digest if files else None,
    )


def mfu(
    engine: Engine, by_formula: Mapping[str, float], forward: Mapping[str, Any], throughput: float | None
) -> dict[str, Any]:
    """`flops_per_sample`, `model_flops`, `mfu`, `mfu_note`, `hfu`, and the MFU by each formula, of the whole job."""
    settings = engine.settings
    peak, note = peak_flops(engine.config["hardware"], engine.device_name, peak_name(settings))
    peak = peak and peak * engine.world.size

    def by(formula: str) -> float | None:
        operations = by_formula.get(formula)
        return utilisation(None if operations is None or throughput is None else operations * throughput, peak)

    again = settings.activation_checkpointing and settings.checkpoint_keeps == "nothing"
    needed = None
    if "per_unit" not in forward:
        note = forward["note"]
    elif throughput is not None:
        # Forward, for the gradients of inputs, for those of weights unless these are frozen, forward again.
        passes = 2 + (not settings.adapter.modules) + again
        needed = forward["per_unit"] * passes * throughput
    return {
        "flops_per_sample": forward.get("per_sample"),
        "model_flops": needed,
        "mfu": utilisation(needed, peak),
        "mfu_note": note,
        "hfu": utilisation(needed, peak) if again else None,
        **{formula: by_formula.get(formula) for formula in FORMULAS},
        **{figure: by(formula) for formula, figure in FORMULAS.items()},
    }


def forward_by_task(operations: float | None, trained: Trained) -> dict[str, Any]:
    """`forward` of a framework that counts no operations: the task's number of operations of one sample."""
    if operations is None:
        note = "the task does not say how many operations a sample takes"
        return {"example": None, "example_note": note, "note": note}
    per_unit = operations * trained.samples / max(1, trained.units)
    return {"example": operations, "example_note": None, "per_sample": operations, "per_unit": per_unit}
