"""One step of Paddle's network, in Paddle's own process: `python paddle_step.py CONFIG GIVEN.npz FOUND.npz`.

CONFIG has the networks to make, `network` and `full`, as YAML. GIVEN holds `weight/<name of transformers>` and
`batch/<name>`; FOUND gets `loss`, `grad_norm`, `parameters`, `full_parameters`, `words` and `follows`.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import paddle
import yaml

from cases.bert.paddle.task import INPUTS, Pretraining
from flagperf.contract.components import component


def main(config: str, given: str, found: str) -> None:
    """Make the step."""
    with np.load(given) as file:
        arrays = dict(file)
    weights = {name.removeprefix("weight/"): array for name, array in arrays.items() if name.startswith("weight/")}
    batch = {
        name.removeprefix("batch/"): paddle.to_tensor(array)
        for name, array in arrays.items()
        if name.startswith("batch/")
    }
    nodes = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
    network, task = component(nodes, "network"), Pretraining()
    with paddle.LazyGuard():  # shapes only
        full = component(nodes, "full")
    missing, unexpected = network.set_state_dict(task.initial_weights(weights))
    assert not missing and not unexpected, (missing, unexpected)
    words, follows = network(*(batch[name] for name in INPUTS))
    loss = task.loss(network, batch)
    loss.backward()
    groups = task.parameters(network)
    norm = paddle.nn.utils.clip_grad_norm_(network.parameters(), 1e9)
    np.savez(
        found,
        loss=loss.numpy(),
        grad_norm=norm.numpy(),
        parameters=count(network.parameters()),
        full_parameters=count(full.parameters()),
        groups=[count(group["params"]) for group in groups],
        words=words.numpy(),
        follows=follows.numpy(),
    )


def count(parameters: list[paddle.Tensor]) -> int:
    """Numbers in all of them."""
    return sum(math.prod(parameter.shape) for parameter in parameters)


if __name__ == "__main__":
    main(*sys.argv[1:])
