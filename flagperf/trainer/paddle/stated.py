"""What a case on PaddlePaddle states of its network and recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import paddle

from flagperf.contract.components import component
from flagperf.trainer.identity.stated import stated_optimizer, stated_schedule
from flagperf.trainer.paddle.built import fingerprint, optimizer_of


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a case states in the size of the configuration. No data is needed."""
    task = component(config, "task")
    with paddle.LazyGuard():  # shapes only
        network = component(config, "network")
    operations, groups = task.operations(config), task.parameters(network)
    own = [{key: value for key, value in group.items() if key != "params"} for group in groups]
    found = optimizer_of(component(config, "optimizer", learning_rate=1.0, parameters=groups), network)
    return {
        "network": fingerprint(network),
        "forward": None if operations is None else {"operations": round(operations), "within": 0.001},
        "optimizer": stated_optimizer(found, config, own),
        "schedule": stated_schedule(config, component(config, "lr_scheduler", config["lr"])),
    }
