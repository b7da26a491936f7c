"""A configured case made by hand, for tests of what comes after composition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from flagperf.config.files.search_path import CONF
from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.limits import AutoBatch, Deadlines, Limits, MonitorIntervals
from flagperf.config.schema.platform import Framework, Hardware, RuntimeSettings, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import build, values_of_fields
from flagperf.contract.mesh import Mesh

DEADLINES = Deadlines(connect=15.0, start=300.0, first_step=600.0, stall=300.0, stop=10.0)
FRAMEWORK = yaml.safe_load((CONF / "framework/pytorch.yaml").read_text(encoding="utf-8"))
LAUNCH = ["{python}", "--nnodes", "{nnodes}", "--nproc", "{nproc}", "--rank", "{node_rank}"]
LAUNCH += ["--to", "{master_address}:{master_port}", "{config}"]
PYTORCH = build(Framework, FRAMEWORK | {"name": "pytorch"}, "framework", str)
HERE = Node("here", "127.0.0.1", local=True)


def example_job(*, config: dict[str, Any] | None = None, **fields: Any) -> JobConfig:
    """A job of case `sums` on this machine; `fields` replace those of JobConfig, `config` adds to its configuration."""
    values: dict[str, Any] = {
        "case": "sums",
        "size": "tiny",
        "nnodes": 1,
        "nproc": 2,
        "repeat": 1,
        "repeat_seed": "own",
        "seed": 7,
        "division": "closed",
        "data": {},
        "data_dir": "/data",
        "sample_dir": "/sample",
        "code_dir": None,
        "result_dir": "result",
        "run_name": None,
        "resume": None,
        "restarts": 0,
        "clear_caches": False,
        "require_target": False,
        "oversubscribe": False,
        "probe": None,
        "predict": True,
        "dry_run": False,
        "submit": False,
        "only": None,
        "log_level": "info",
        "max_steps": 20,
        "train_batch_size": 4,
        "gradient_accumulation_steps": 1,
        "throughput_unit": "samples/s",
        "precision": "fp32",
        "deterministic": False,
        "init_checkpoint": None,
    } | (config or {})
    values |= {key: value for key, value in fields.items() if key in values}
    parts = {"framework": {"name": "pytorch"}, "vendor": {"name": "cpu"}, "hardware": {"name": "cpu"}}
    values = {**parts, **values}
    built: dict[str, Any] = {
        "framework": replace(PYTORCH, launch=tuple(LAUNCH)),
        "vendor": Vendor("cpu", "any CPU", "cpu", "gloo", None, None),
        "hardware": Hardware("cpu", "a CPU", None, None, {}),
        "cluster": Cluster("local", "this machine", (HERE,)),
        "runtime": RuntimeSettings("process", "process", python="python3"),
        "target": None,
        "deadlines": DEADLINES,
        "monitor": MonitorIntervals(5.0, 120.0),
        "auto_batch": AutoBatch(0.9, None, 10),
        "mesh": Mesh(dp_replicate=values["nnodes"] * values["nproc"]),
        "limits": Limits(**values_of_fields(Limits, values)),
        "config": values,
    }
    return JobConfig(**{**values_of_fields(JobConfig, values), **built, **fields})
