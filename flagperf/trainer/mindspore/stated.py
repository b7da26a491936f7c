"""What a case on MindSpore states of its network and recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.components import component
from flagperf.trainer.identity.stated import stated_optimizer, stated_schedule
from flagperf.trainer.mindspore.built import fingerprint, optimizer_of


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a case states in the size of the configuration. No data is needed."""
    task, network = component(config, "task"), component(config, "network")
    operations = task.operations(network)
    found = optimizer_of(component(config, "optimizer", task.parameters(network), learning_rate=1.0))
    return {
        "network": fingerprint(network),
        "forward": None if operations is None else {"operations": round(operations), "within": 0.001},
        "optimizer": stated_optimizer(found, config, [{}] * len(found["groups"])),
        "schedule": stated_schedule(config, component(config, "lr_scheduler", config["lr"], 1)),
    }
