"""A run as a record, benchmark.json. docs/benchmark.schema.json describes every field. The tables come from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flagperf import __version__
from flagperf.contract.perflog import encode
from flagperf.contract.records import Result, Summary
from flagperf.errors import ConfigError
from flagperf.results.summary import STEPS, usable, verdict
from flagperf.run import command_file

SCHEMA = 1  # it rises when a field changes its meaning, or is removed
THROUGHPUT = ""  # means: the unit of the case's throughput
UNITS = {  # figure of a round → its unit
    "e2e_time": "s",
    "init_time": "s",
    "raw_train_time": "s",
    "train_no_eval_time": "s",
    "pure_training_computing_time": "s",
    "eval_time": "s",
    "checkpoint_time": "s",
    "data_wait": "s",
    "p_whole": THROUGHPUT,
    "p_train": THROUGHPUT,
    "p_core": THROUGHPUT,
    "steady_throughput": THROUGHPUT,
    "training_sequences_per_second": "samples/s",
    "num_trained_samples": "samples",
    "num_trained_units": "units",
    "global_steps": "steps",
    "epochs": "epochs",
    "step_time_p50": "s",
    "step_time_p90": "s",
    "step_time_p99": "s",
    "mfu": "share",
    "mfu_achieved": "share",
    "mfu_6n": "share",
    "mfu_causal": "share",
    "mfu_formula": "share",
    "hfu": "share",
    "pipeline_bubble": "share",
    "formula_flops_6n": "FLOP",
    "formula_flops": "FLOP",
    "formula_flops_causal": "FLOP",
    "flops_per_sample": "FLOP",
    "parameters": "parameters",
    "peak_memory": "GiB",
    "final_loss": "loss",
    STEPS: "steps",
}
IDENTITY = (  # the fields of Identity in the record of a job
    *("case", "size", "nnodes", "nproc", "division", "precision", "framework", "vendor", "hardware"),
    *("revision", "throughput_unit", "train_batch_size"),
)
FINAL = "final_"  # the prefix of a metric's figure
NO_METRIC = ("final_loss", "final_accuracy")  # final_accuracy repeats a metric


def benchmark(run: Path, summaries: Sequence[Summary]) -> dict[str, Any]:
    """The record of a run. "nan", "inf" and "-inf" are the numbers that JSON lacks."""
    record = {
        "schema": SCHEMA,
        "flagperf": __version__,
        "run": run.resolve().name,
        "command": _command(run),
        "jobs": [_job(summary) for summary in summaries],
    }
    return dict(encode(record))


def _command(run: Path) -> dict[str, Any] | None:
    with suppress(ConfigError):  # older runs kept none
        command = command_file.read(run)
        return {"line": command.line(), "folder": command.folder, "began": command.began, "code": dict(command.code)}
    return None


def _job(summary: Summary) -> dict[str, Any]:
    identity, results = summary.identity, summary.results
    target = next((result.target for result in results if result.target), None)
    units = {**UNITS, **({f"{FINAL}{metric}": target.unit for metric in target.values} if target else {})}
    figures = {
        name: {"unit": units[name] or identity.throughput_unit, **dataclasses.asdict(statistics)}
        for name, statistics in summary.statistics.items()
    }
    return {
        "name": summary.name,
        **{key: getattr(identity, key) for key in IDENTITY},
        "sweep": dict(results[0].sweep) if results else {},
        "verdict": verdict(summary),
        "reasons": list(summary.reasons),
        "target": dataclasses.asdict(target) if target else None,
        "rounds_that_count": len(usable(results)),
        "rounds_that_reached_the_target": sum(result.target_reached is True for result in usable(results)),
        "figures": figures,
        "changes": [dataclasses.asdict(change) for change in summary.changes],
        "rounds": [_round(result) for result in results],
    }


def _round(result: Result) -> dict[str, Any]:
    values = result.values
    finals = {name: value for name, value in values.items() if name.startswith(FINAL) and name not in NO_METRIC}
    return {
        **{key: getattr(result, key) for key in ("round", "status", "verdict", "seed", "started", "seconds")},
        "reasons": list(result.reasons),
        "notes": list(result.notes),
        "failure": result.failure.line if result.failure else None,
        "data": _data(result),
        "target_reached": result.target_reached,
        "stop_reason": values.get("stop_reason"),
        "device": values.get("device_name"),
        "versions": values.get("versions") or {},
        "image": (result.built.get("software") or {}).get("image"),
        "figures": {name: values[name] for name in UNITS if name in values} | finals,
        "energy": _energy(result.monitors),
    }


def _data(result: Result) -> dict[str, Any]:
    """The data of a round: kind, the fingerprint of its files where known, and how it differs from the case's."""
    kind = "synthetic" if result.synthetic else "sample" if result.sample_data else "real"
    fingerprints = {rank.get("data_fingerprint") for rank in result.values.get("ranks") or ()} - {None}
    fingerprint = fingerprints.pop() if len(fingerprints) == 1 else None
    return {"kind": kind, "fingerprint": fingerprint, "differs": result.other_data}


def _energy(monitors: Mapping[str, Any]) -> dict[str, Any]:
    """Kind of energy → its figures, where known."""
    energies = (monitors.get("energy") or {}).items()
    return {kind: dict(figures) for kind, figures in energies if "not_available" not in figures}
