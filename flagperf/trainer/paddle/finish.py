"""What Paddle tells of a rank when the training is over."""

from __future__ import annotations

import hashlib

import paddle
from paddle import nn

from flagperf.trainer.loop.finish import Own, forward_by_task
from flagperf.trainer.loop.trained import Trained
from flagperf.trainer.paddle.build import Parts
from flagperf.trainer.paddle.device import device_name, peak_memory


def own(parts: Parts, trained: Trained) -> Own:
    """Look at the network and the device of this rank."""
    memory, memory_kind = peak_memory(parts.device)
    return Own(
        parameters=sum(int(parameter.size) for parameter in parts.network.parameters()),
        parameters_checksum=checksum(parts.network),
        peak_memory=memory,
        peak_memory_kind=memory_kind,
        device_name=device_name(parts.device),
        versions={"paddlepaddle": paddle.__version__},
        forward=forward_by_task(parts.task.operations(parts.config), trained),
    )


def checksum(network: nn.Layer) -> str:
    """A number that tells whether the parameters of two ranks are the same: a digest of all their bytes."""
    digest = hashlib.sha256()
    for parameter in network.parameters():
        digest.update(parameter.numpy().tobytes())
    return digest.hexdigest()[:16]
