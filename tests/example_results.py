"""Results for tests, made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf.contract.identity import Identity
from flagperf.contract.perflog import Event
from flagperf.contract.records import Achievable, Change, Result
from flagperf.contract.target import Target
from flagperf.results import result

TARGET = Target("acc1", 95.0, "higher", "%")

CONFIG: dict[str, Any] = {
    "case": "resnet50",
    "title": "ResNet-50",
    "framework": {"name": "pytorch"},
    "size": "full",
    "vendor": {"name": "nvidia", "visible_devices": "CUDA_VISIBLE_DEVICES", "container": {"gpus": "all"}},
    "runtime": {"kind": "docker", "container": {}},
    "cluster": {"container": {}},
    "hardware": {"name": "A100", "memory_gib": 40.0},
    "nnodes": 2,
    "nproc": 8,
    "repeat": 1,
    "division": "closed",
    "data_dir": "/data/imagenet",
    "sample_dir": "~/.cache/flagperf/sample",
    "precision": "amp_bf16",
    "throughput_unit": "images/s",
    "target": {"metric": "acc1", "value": 95.0, "direction": "higher", "unit": "%"},
    "max_steps": None,
    "max_epochs": 100,
    "max_samples_termination": None,
    "max_time": None,
}


IDENTITY = Identity.of(CONFIG)

CHANGES = (
    Change("lr", 0.1, 0.8, "tuning nvidia/resnet50/A100x2x8"),
    Change("train_batch_size", 32, 256, "tuning nvidia/resnet50/A100x2x8"),
    Change("num_workers", 32, 8, "command line"),
)


def a_result(**changed: Any) -> Result:
    """A round that reached its target; keywords change it and its identity."""
    of_identity = {name: changed.pop(name) for name in list(changed) if name in vars(IDENTITY)}
    fields: dict[str, Any] = {
        "identity": dataclasses.replace(IDENTITY, **of_identity),
        "round": 1,
        "status": "finished",
        "verdict": "VALID",
        "reasons": (),
        "sample_data": False,
        "target": TARGET,
        "target_reached": True,
        "values": {"p_core": 12345.6, "final_acc1": 95.5},
    }
    if "num_trained_units" in changed.get("values", {}):
        fields["achievable"] = Achievable(missing=("peak_flops", "memory_bandwidth", "a traced step"))
    return Result(**{**fields, **changed})


def write_round(folder: Path, visible: str | None = None, ranks: int = 16, **changed: Any) -> dict[str, Any]:
    """The logs of a round of CONFIG that trained from 1000 s to 1020 s of the epoch; keywords change FINISHED.

    `ranks`: of the job, eight a node. `visible`: the value of CUDA_VISIBLE_DEVICES in the ranks' environment.

    Returns the value of FINISHED.
    """
    values: dict[str, Any] = {
        "e2e_time": 25.0,
        "raw_train_time": 20.0,
        "train_no_eval_time": 18.0,
        "pure_training_computing_time": 16.0,
        "num_trained_samples": 3200,
        "num_trained_units": 3200,
        "p_whole": 160.0,
        "p_train": 3200 / 18,
        "p_core": 200.0,
        "global_steps": 100,
        "epochs": 2,
        "converged": True,
        "stop_reason": "target",
        "final_loss": 0.5,
        "final_acc1": 95.5,
        "sample_data": False,
        **changed,
    }
    for rank in range(ranks):
        events = [
            Event("SUBMIT_INFO", {"case": "resnet50", "visible_devices": visible}, time_ms=995_000, rank=rank),
            Event("INIT_START", time_ms=996_000, rank=rank),
            Event("INIT_END", time_ms=1_000_000, rank=rank),
            Event("TRAIN_START", time_ms=1_000_000, rank=rank),
            *(_step(step, rank) for step in range(10, 101, 10)),
            Event("EVALUATE", {"step": 50, "acc1": 80.0, "time": 1.0}, time_ms=1_010_000, rank=rank),
            Event("EVALUATE", {"step": 100, "acc1": 95.5, "time": 1.0}, time_ms=1_020_000, rank=rank),
            Event("TRAIN_END", time_ms=1_020_000, rank=rank),
            Event("FINISHED", values, time_ms=1_021_000, rank=rank),
        ]
        log = folder / f"node{rank // 8}_noderank{rank // 8}" / f"rank{rank}.out.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"{event.line()}\n" for event in events), encoding="utf-8")
    return values


def write_job(
    run: Path, nnodes: int, nproc: int, config: Mapping[str, Any], changes: Sequence[Change] = CHANGES, **finished: Any
) -> Path:
    """A job of one round in the folder of a run; `config` replaces keys of CONFIG. Returns its folder."""
    job = run / f"resnet50-pytorch-A100x{nnodes}x{nproc}"
    values = {**CONFIG, "nnodes": nnodes, "nproc": nproc, **config}
    write_round(job / "round1", ranks=nnodes * nproc, **finished)
    (job / "config.yaml").write_text(yaml.safe_dump(values))
    (job / "changes.yaml").write_text(yaml.safe_dump([vars(change) for change in changes]))
    found = result.result_of_logs(values, tuple(changes), 1, job / "round1", result.Ending("finished"))
    result.write(found, job / "round1")
    return job


def _step(step: int, rank: int) -> Event:
    value = {"step": step, "loss": 50 / step, "throughput": 150.0 + step, "step_time": 0.1 + step / 1e4}
    return Event("STEP_END", value, time_ms=1_000_000 + 180 * step, rank=rank)


def make_run(folder: Path, *, rounds: int = 2, repeat: int = 2, name: str = "resnet50-pytorch-A100x2x8") -> Path:
    """A run folder as the launcher leaves it; returns the job's folder."""
    job = folder / name
    job.mkdir(parents=True)
    for number in range(1, rounds + 1):
        write_round(job / f"round{number}")
        sweep = dict(part.split("=") for part in name.split(",")[1:])
        found = result.result_of_logs(CONFIG, CHANGES, number, job / f"round{number}", result.Ending("finished"), sweep)
        result.write(found, job / f"round{number}")
    (job / "config.yaml").write_text("# a comment\n" + yaml.safe_dump({**CONFIG, "repeat": repeat}))
    (job / "changes.yaml").write_text(yaml.safe_dump([dataclasses.asdict(change) for change in CHANGES]))
    return job
