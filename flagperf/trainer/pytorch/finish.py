"""FINISHED: what a training measured, put together over its ranks."""

from __future__ import annotations

import platform
import socket
import time
from typing import Any

import torch

import flagperf
from flagperf.trainer.data_files import data_fingerprint
from flagperf.trainer.figures import RankFigures, job_figures, metric_figures, percentiles, utilisation
from flagperf.trainer.pytorch.checksum import checksum
from flagperf.trainer.pytorch.device import device_name, peak_memory
from flagperf.trainer.pytorch.fingerprint import example_operations
from flagperf.trainer.pytorch.flops import count_forward, first_batch, peak_flops
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.trained import Trained


def finished(parts: Parts, trained: Trained, began: float) -> dict[str, Any]:
    """The value of FINISHED, the same on every rank. `began`: when the process began, by time.perf_counter."""
    memory, memory_kind = peak_memory(parts.device)
    forward = forward_operations(parts) if parts.world.rank == 0 else {}
    gathered = parts.world.gather((rank_figures(parts, trained, memory, began), forward))
    job = job_figures([figures for figures, _ in gathered])
    forward = gathered[0][1]
    config, settings = parts.config, parts.settings
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
        **mfu(parts, forward, job["steady_throughput"] or job["p_train"]),
        "example_flops": forward["example"],
        "example_note": forward["example_note"],
        "parameters": sum(parameter.numel() for parameter in parts.network.parameters()),
        "peak_memory_kind": memory_kind,
        "warmup_steps": settings.warmup_steps,
        "clock": trained.clock,
        "precision": settings.precision,
        "device_name": device_name(parts.device),
        "versions": {"flagperf": flagperf.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def rank_figures(parts: Parts, trained: Trained, memory: float, began: float) -> RankFigures:
    """What this rank measured, and which files it found, if it is the first of its node."""
    e2e_time = time.perf_counter() - began  # without the look at the files
    files = data_fingerprint(parts.config) if parts.world.local_rank == 0 else None
    steady_units, steady_times = trained.steady(parts.settings.warmup_steps)
    p50, p90, p99 = percentiles(steady_times)
    return RankFigures(
        rank=parts.world.rank,
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
        peak_memory=memory,
        loss_checksum=f"{trained.loss_checksum:08x}",
        parameters_checksum=checksum(parts.network),
        data_files=files.files if files else None,
        data_fingerprint=files.digest if files else None,
    )


def forward_operations(parts: Parts) -> dict[str, Any]:
    """Operations of one forward pass over the task's example, and over the first batch per sample and per unit.

    Where they cannot be counted: notes why not.
    """
    example, note = example_operations(parts.task, parts.network, parts.config, parts.precision)
    counted = {"example": example, "example_note": note}
    batch = first_batch(parts.datasets.train, parts.datasets.train_batches)
    operations, note = count_forward(parts.task, parts.network, parts.to_device(batch), parts.precision)
    if operations is None:
        return {**counted, "note": note}
    return {
        **counted,
        "per_sample": operations / parts.task.samples(batch),
        "per_unit": operations / parts.task.units(batch),
    }


def mfu(parts: Parts, forward: dict[str, Any], throughput: float | None) -> dict[str, Any]:
    """`flops_per_sample`, `mfu` and `mfu_note`."""
    settings = parts.settings
    peak, note = peak_flops(parts.config["hardware"], device_name(parts.device), settings.precision)
    value = None
    if "per_unit" not in forward:
        note = forward["note"]
    elif peak is not None and throughput is not None:
        passes = 4 if settings.activation_checkpointing else 3  # forward, twice as much backward, forward again
        value = utilisation(forward["per_unit"], passes, throughput, peak * parts.world.size)
    return {"flops_per_sample": forward.get("per_sample"), "mfu": value, "mfu_note": note}
