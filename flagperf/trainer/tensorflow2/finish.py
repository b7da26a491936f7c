"""What TensorFlow tells of a rank when the training is over."""

from __future__ import annotations

import hashlib

import keras
import numpy as np
import tensorflow as tf

from flagperf.trainer.loop.finish import Own, forward_by_task
from flagperf.trainer.loop.trained import Trained
from flagperf.trainer.tensorflow2.build import Parts
from flagperf.trainer.tensorflow2.built import count
from flagperf.trainer.tensorflow2.device import device_name, peak_memory


def own(parts: Parts, trained: Trained) -> Own:
    """Look at the network and the device of this rank."""
    memory, memory_kind = peak_memory(parts.device)
    return Own(
        parameters=count(parts.network.trainable_weights),
        parameters_checksum=checksum(parts.network),
        peak_memory=memory,
        peak_memory_kind=memory_kind,
        device_name=device_name(parts.device),
        versions={"tensorflow": tf.__version__, "keras": keras.__version__},
        forward=forward_by_task(parts.task.operations(parts.network), trained),
    )


def checksum(network: keras.Model) -> str:
    """A number that tells whether the parameters of two ranks are the same: a digest of all their bytes."""
    digest = hashlib.sha256()
    for weight in network.trainable_weights:
        digest.update(np.asarray(weight).tobytes())
    return digest.hexdigest()[:16]
