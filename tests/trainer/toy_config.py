"""The configuration of the toy case of toy.py, for tests that need no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def node(name: str, **arguments: Any) -> dict[str, Any]:
    """A `_target_` entry for a class or function of this file."""
    return {"_target_": f"toy.{name}", **arguments}


def config(**settings: Any) -> dict[str, Any]:
    """A resolved configuration: 64 points, 8 a step and rank, plain gradient descent, unless said otherwise."""
    training = yaml.safe_load((ROOT / "conf" / "training.yaml").read_text(encoding="utf-8"))
    return {
        **training,
        "case": "toy",
        "revision": 1,
        "size": "tiny",
        "division": "closed",
        "nnodes": 1,
        "nproc": 1,
        "data_dir": None,
        "clear_caches": False,
        "mlperf": {"division": "open", "org": None, "status": None, "platform": None},
        "resume": None,
        "restarts": 0,
        "log_level": "info",
        "throughput_unit": "points/s",
        "framework": yaml.safe_load((ROOT / "conf/framework/pytorch.yaml").read_text("utf-8")) | {"name": "pytorch"},
        "vendor": {"name": "cpu", "device": "cpu", "backend": "gloo", "plugin": None, "visible_devices": None},
        "hardware": {"name": "cpu", "peak_flops": {"fp32": 1e12}},
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "lr": 0.1,
        "num_workers": 0,
        "log_freq": 1,
        "max_epochs": 1,
        "network": node("network"),
        "task": node("Classification"),
        "optimizer": {"_target_": "torch.optim.SGD", "lr": 0.1},
        "train_data": node("Points", count=64),
        "eval_data": node("Points", count=19, seed=8),
        **settings,
    }
