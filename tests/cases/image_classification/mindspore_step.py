"""One step of MindSpore's network, in its own process: `python mindspore_step.py CONFIG GIVEN.npz FOUND.npz`.

CONFIG has the networks to make, `network` and `full`, the optimizer and the task, as YAML. GIVEN holds `images`
[n, 3, height, width] and `labels`; weights.pt beside it, torchvision's weights by name. FOUND gets `scores`, `loss`,
`grad_norm`, `change` (the norm of what two optimizer steps changed), `trained` and `kept` (numbers that are trained,
and that batch norm keeps), `full_trained`, `full_kept`, and `operations` of both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import yaml
from mindspore import Tensor

from flagperf.contract.components import component
from flagperf.trainer.checkpoints.weights import read_weights
from flagperf.trainer.mindspore.engine import global_norm
from flagperf.trainer.mindspore.identity import count


def main(config: str, given: str, found: str) -> None:
    """Make the step."""
    mindspore.set_device("CPU")
    nodes = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
    network, full, task = (component(nodes, name) for name in ("network", "full", "task"))
    optimizer = component(nodes, "optimizer", task.parameters(network), learning_rate=nodes["lr"])
    with np.load(given) as file:
        batch = [Tensor(file["images"]), Tensor(file["labels"], mindspore.int32)]
    weights = task.initial_weights(read_weights(str(Path(given).with_name("weights.pt"))))
    for name, parameter in network.parameters_dict().items():
        parameter.set_data(Tensor(weights[name], parameter.dtype))
    network.set_train(False)
    scores = network(task.normalised(batch[0])).asnumpy()
    network.set_train(True)
    gradients = mindspore.value_and_grad(lambda: task.loss(network, batch), None, optimizer.parameters)
    loss, first = gradients()
    before = [parameter.asnumpy().copy() for parameter in optimizer.parameters]
    optimizer(first)
    optimizer(gradients()[1])
    np.savez(
        found,
        scores=scores,
        loss=loss.asnumpy(),
        grad_norm=global_norm(first).asnumpy(),
        change=changed(before, optimizer.parameters),
        trained=count(network.trainable_params()),
        kept=count(network.untrainable_params()),
        full_trained=count(full.trainable_params()),
        full_kept=count(full.untrainable_params()),
        operations=[task.operations(network, {}), task.operations(full, {})],
    )


def changed(before: list[Any], parameters: Any) -> float:
    """Norm of the difference."""
    after = (parameter.asnumpy() for parameter in parameters)
    return float(np.sqrt(sum(np.sum((new - old) ** 2) for old, new in zip(before, after, strict=True))))


if __name__ == "__main__":
    main(*sys.argv[1:])
