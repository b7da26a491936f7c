"""What a case on TensorFlow 2 states of its network and recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from flagperf.contract.components import component
from flagperf.trainer.identity.stated import stated_optimizer, stated_schedule
from flagperf.trainer.tensorflow2.built import fingerprint, optimizer_of


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a case states in the size of the configuration. No data is needed."""
    keras.utils.clear_session()  # Keras numbers the layers without a name
    task, network = component(config, "task"), component(config, "network")
    operations = task.operations(network)
    found = optimizer_of(component(config, "optimizer", learning_rate=1.0), network)
    return {
        "network": fingerprint(network),
        "forward": None if operations is None else {"operations": round(operations), "within": 0.001},
        "optimizer": stated_optimizer(found, config, [{}]),  # one group
        "schedule": stated_schedule(config, component(config, "lr_scheduler", config["lr"], 1)),
    }
