"""BUILT: what this rank really built, after every import and plug-in. The verdict holds it against the case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from flagperf.contract.components import component, path_of
from flagperf.contract.digest import digest
from flagperf.trainer.identity.software import software
from flagperf.trainer.loop.schedule import intervals_of
from flagperf.trainer.start.imports import imported_anew
from flagperf.trainer.tensorflow2.build import Parts
from flagperf.trainer.tensorflow2.device import device_name

FREE = ("learning_rate", "global_clipnorm")  # of the optimizer: the schedule and the settings say them


def built(parts: Parts) -> dict[str, Any]:
    """The value of BUILT, of this rank."""
    return {
        "device_name": device_name(parts.device),
        "data": dict(parts.data.counts),
        "network": fingerprint(parts.network),
        "optimizer": optimizer_of(parts.optimizer, parts.network),
        "schedule": schedule_of(parts),
        "software": software(parts.config, {"tensorflow": tf.__version__, "keras": keras.__version__}),
    }


def fingerprint(network: keras.Model) -> dict[str, Any]:
    """Number of parameters, digests of weights and layers, and how many layers there are of each class.

    Keras counts what batch norm keeps (moving means and variances) as weights that are not trained. Like PyTorch's
    buffers they are no parameters here.
    """
    trained = {id(weight) for weight in network.trainable_weights}
    tensors = [(weight, "parameter" if id(weight) in trained else "buffer") for weight in network.weights]
    layers = [(layer.name, path_of(layer)) for layer in network._flatten_layers()]
    return {
        "parameters": count(network.trainable_weights),
        "tensors": digest(f"{one.path} {kind} {list(one.shape)} {one.dtype}" for one, kind in tensors),
        "modules": digest(f"{name} {path}" for name, path in layers),
        "classes": dict(sorted(Counter(path for _, path in layers).items())),
    }


def count(weights: list[Any]) -> int:
    """Numbers in all of them."""
    return sum(math.prod(weight.shape) for weight in weights)


def optimizer_of(optimizer: Any, network: keras.Model) -> dict[str, Any]:
    """Class, where the code of its step comes from, and its hyper-parameters; Keras has one group."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    weights = network.trainable_weights
    own = {name: value for name, value in inner.get_config().items() if name not in FREE}
    return {
        "class": path_of(inner),
        "step": inner.update_step.__globals__["__name__"],
        "groups": [
            {
                "tensors": len(weights),
                "parameters": count(weights),
                "names": digest(weight.path for weight in weights),
                **{name: value for name, value in own.items() if isinstance(value, (bool, int, float))},
            }
        ],
    }


def schedule_of(parts: Parts) -> dict[str, Any]:
    """The learning rates of chosen steps, as this training will have them and as the case's own class gives them."""
    batches, lr = parts.data.train_batches, parts.settings.lr
    intervals = intervals_of(parts.settings, batches)
    stated = (parts.config.get("fingerprint") or {}).get("schedule")
    of_case = None
    if stated is not None:
        of_case = rates(case_schedule(parts.config, stated["made_by"], batches.steps_per_epoch), lr, intervals)
    return {
        "scheduler": None if parts.schedule is None else path_of(parts.schedule),
        "interval": parts.settings.lr_interval,
        "rates": rates(parts.schedule, lr, intervals),
        "rates_of_case": of_case,
    }


def case_schedule(config: Mapping[str, Any], made_by: str, steps_per_epoch: int) -> Any:
    """The schedule of the configuration, by its own class as it lies on the disk: a plug-in may have changed it.

    Args:
        made_by: module and name of the class or function that makes it; empty: the case has no schedule.
    """
    if not made_by:
        return None
    with imported_anew([made_by.rpartition(".")[0]]):
        made = {"made": {**config["lr_scheduler"], "_target_": made_by}}
        return component(made, "made", config["lr"], steps_per_epoch)


def rates(schedule: Any, lr: float, intervals: Mapping[int, int]) -> dict[str, float]:
    """Step → learning rate where the schedule has stepped so often before."""
    return {str(step): lr if schedule is None else float(schedule(done)) for step, done in intervals.items()}
