"""A configured case made by hand, for tests of what comes after composition."""

from __future__ import annotations

from typing import Any

from flagperf.config.values import Cluster, Hardware, Node, RunConfig, RuntimeSettings, Vendor

DEADLINES = {"connect": 15.0, "start": 300.0, "first_step": 600.0, "stall": 300.0, "stop": 10.0}
LAUNCH = ["{python}", "--nnodes", "{nnodes}", "--nproc", "{nproc}", "--rank", "{node_rank}"]
LAUNCH += ["--to", "{master_address}:{master_port}", "{config}"]
HERE = Node("here", "127.0.0.1", local=True)


def example_run(*, config: dict[str, Any] | None = None, **fields: Any) -> RunConfig:
    """A run of case `sums` on this machine; `fields` replace those of RunConfig, `config` adds to its configuration."""
    scale = {"nnodes": 1, "nproc": 2} | {key: fields[key] for key in ("nnodes", "nproc") if key in fields}
    values: dict[str, Any] = {
        "case": "sums",
        "framework": {"name": "pytorch", "launch": LAUNCH},
        "deadlines": DEADLINES,
        "resume": None,
        "result_dir": "result",
        "run_name": None,
        "data_dir": "/data",
        "sample_dir": "/sample",
        "max_steps": 20,
        "train_batch_size": 4,
        **scale,
    }
    given: dict[str, Any] = {
        "case": "sums",
        "framework": "pytorch",
        "size": "tiny",
        "vendor": Vendor("cpu", "any CPU", "cpu", "gloo", None, None),
        "hardware": Hardware("cpu", "a CPU", None, None, {}),
        "cluster": Cluster("local", "this machine", (HERE,)),
        "repeat": 1,
        "division": "closed",
        "runtime": RuntimeSettings("process", "process", python="python3"),
        "target": None,
        "config": values | (config or {}),
        **scale,
        **fields,
    }
    return RunConfig(**given)
