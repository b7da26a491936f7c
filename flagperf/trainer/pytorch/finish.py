"""FINISHED: what one training measured, put together over its ranks."""

from __future__ import annotations

import platform
import socket
import time
from typing import Any

import torch

import flagperf
from flagperf.trainer.figures import RankFigures, job_figures, metric_figures, percentiles, utilisation
from flagperf.trainer.pytorch.checksum import checksum
from flagperf.trainer.pytorch.clock import CHECKPOINT, DATA, EVALUATE
from flagperf.trainer.pytorch.device import device_name, peak_memory
from flagperf.trainer.pytorch.flops import count_forward, first_batch, peak_flops
from flagperf.trainer.pytorch.loop import Training


def finished(training: Training, began: float) -> dict[str, Any]:
    """The value of FINISHED, the same on every rank. `began`: when the process began, by time.perf_counter."""
    parts = training.parts
    memory, memory_kind = peak_memory(parts.device)
    forward = forward_operations(training) if parts.world.rank == 0 else {}
    gathered = parts.world.gather((rank_figures(training, memory, began), forward))
    job = job_figures([figures for figures, _ in gathered])
    forward = gathered[0][1]
    config, settings = parts.config, training.settings
    return {
        **job,
        **metric_figures(training.metrics, settings.target.metric if settings.target else None),
        "throughput_unit": config["throughput_unit"],
        "global_samples": training.progress.samples,
        "global_steps": training.progress.step,
        "resumed_from_step": training.resumed_from or None,
        "epochs": training.progress.epoch - 1,
        "converged": training.stop_reason == "target",
        "stop_reason": training.stop_reason,
        "final_loss": training.records.loss,
        "target": config["target"] if training.target else None,
        "sample_data": training.sample_data,
        "synthetic": settings.synthetic,
        **mfu(training, forward, job["steady_throughput"] or job["p_train"]),
        "parameters": sum(parameter.numel() for parameter in parts.network.parameters()),
        "peak_memory_kind": memory_kind,
        "warmup_steps": settings.warmup_steps,
        "clock": training.clock.name,
        "precision": settings.precision,
        "device_name": device_name(parts.device),
        "versions": {"flagperf": flagperf.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def rank_figures(training: Training, memory: float, began: float) -> RankFigures:
    """What this rank measured."""
    parts, clock = training.parts, training.clock
    warmup = training.settings.warmup_steps
    steady = clock.steps[warmup:]
    warmup_units = training.units_by_step[warmup - 1] if steady and warmup else 0
    p50, p90, p99 = percentiles(steady)
    return RankFigures(
        rank=parts.world.rank,
        host=socket.gethostname(),
        samples=training.samples,
        units=training.units,
        steps=len(clock.steps),
        raw_train_time=training.seconds,
        step_time_sum=sum(clock.steps),
        compute_time=clock.compute,
        data_wait=clock.seconds[DATA],
        eval_time=clock.seconds[EVALUATE],
        checkpoint_time=clock.seconds[CHECKPOINT],
        init_time=training.began - began,
        e2e_time=time.perf_counter() - began,
        wall_drift=training.seconds_wall - training.seconds,
        steady_units=training.units - warmup_units if steady else 0,
        steady_time=sum(steady),
        step_time_p50=p50,
        step_time_p90=p90,
        step_time_p99=p99,
        peak_memory=memory,
        loss_checksum=f"{training.records.checksum:08x}",
        parameters_checksum=checksum(parts.network),
    )


def forward_operations(training: Training) -> dict[str, Any]:
    """Operations of one forward pass over the first batch, per sample and per unit; or a note why not."""
    parts = training.parts
    batch = first_batch(parts.train_data, parts.train_batches)
    operations, note = count_forward(parts.task, parts.network, parts.to_device(batch), parts.precision)
    if operations is None:
        return {"note": note}
    return {
        "per_sample": operations / parts.task.samples(batch),
        "per_unit": operations / parts.task.units(batch),
    }


def mfu(training: Training, forward: dict[str, Any], throughput: float | None) -> dict[str, Any]:
    """`flops_per_sample`, `mfu` and `mfu_note`."""
    parts, settings = training.parts, training.settings
    peak, note = peak_flops(parts.config["hardware"], settings.precision)
    value = None
    if "per_unit" not in forward:
        note = forward["note"]
    elif peak is not None and throughput is not None:
        passes = 4 if settings.activation_checkpointing else 3  # forward, twice as much backward, forward again
        value = utilisation(forward["per_unit"], passes, throughput, peak * parts.world.size)
    return {"flops_per_sample": forward.get("per_sample"), "mfu": value, "mfu_note": note}
