"""The identity of network and optimizer, for BUILT and for the statement of a case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import keras

from flagperf.contract.components import class_path, component
from flagperf.trainer.identity.network import group_identity, network_identity
from flagperf.trainer.identity.stated import stated_case

FREE = ("learning_rate", "global_clipnorm")  # of the optimizer: the schedule and the settings give them


def fingerprint(network: keras.Model) -> dict[str, Any]:
    """Number of parameters, digests of weights and layers, and how many layers there are of each class.

    Keras counts the moving means and variances of batch norm as untrained weights. Here they are buffers, as in
    PyTorch.
    """
    trained = {id(weight) for weight in network.trainable_weights}
    tensors = ((weight.path, "parameter" if id(weight) in trained else "buffer", weight) for weight in network.weights)
    layers = ((layer.name, class_path(layer)) for layer in network._flatten_layers())
    return network_identity(count(network.trainable_weights), tensors, layers)


def count(weights: list[Any]) -> int:
    """The number of values in all of them."""
    return sum(math.prod(weight.shape) for weight in weights)


def optimizer_of(optimizer: Any, network: keras.Model) -> dict[str, Any]:
    """Class of the optimizer, module of its step's code, and its hyper-parameters; Keras has one group."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    weights = network.trainable_weights
    settings = {name: value for name, value in inner.get_config().items() if name not in FREE}
    return {
        "class": class_path(inner),
        "step": inner.update_step.__globals__["__name__"],
        "groups": [
            group_identity(
                [math.prod(weight.shape) for weight in weights],
                (weight.path for weight in weights),
                **{name: value for name, value in settings.items() if isinstance(value, (bool, int, float))},
            )
        ],
    }


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The statement of a case in the size of the configuration. It needs no data."""
    keras.utils.clear_session()  # Keras numbers the layers without a name
    task, network = component(config, "task"), component(config, "network")
    operations = task.operations(network, config)
    optimizer = optimizer_of(component(config, "optimizer", learning_rate=1.0), network)
    schedule = component(config, "lr_scheduler", config["lr"], 1)
    return stated_case(config, fingerprint(network), operations, optimizer, [{}], schedule)  # one group
