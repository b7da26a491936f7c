"""One step of TensorFlow's network, in its own process: `python tensorflow2_step.py CONFIG GIVEN.npz FOUND.npz`.

CONFIG has the networks to make, `network` and `full`, and the task, as YAML. GIVEN holds `images` [n, height, width, 3]
and `labels`; weights.npz beside it, torchvision's weights by name. FOUND gets `scores`, `loss`, `grad_norm`, `trained`
and `kept` (numbers that are trained, and that batch norm keeps), `full_trained`, `full_kept`, and `operations` of both.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import yaml

from flagperf.contract.components import component
from flagperf.trainer.checkpoints.weights import read_weights
from flagperf.trainer.tensorflow2.identity import count


def main(config: str, given: str, found: str) -> None:
    """Make the step."""
    nodes = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
    network, full, task = (component(nodes, name) for name in ("network", "full", "task"))
    with np.load(given) as file:
        arrays = dict(file)
    weights = task.initial_weights(read_weights(str(Path(given).with_name("weights.npz"))))
    for weight in network.weights:
        weight.assign(weights[weight.path])
    batch = (tf.constant(arrays["images"]), tf.constant(arrays["labels"]))
    scores = network(task.normalised(batch[0]), training=False)
    with tf.GradientTape() as tape:
        loss = task.loss(network, batch)
    norm = tf.linalg.global_norm(tape.gradient(loss, network.trainable_variables))
    np.savez(
        found,
        scores=scores,
        loss=loss,
        grad_norm=norm,
        trained=count(network.trainable_weights),
        kept=count(network.non_trainable_weights),
        full_trained=count(full.trainable_weights),
        full_kept=count(full.non_trainable_weights),
        operations=[task.operations(network, {}), task.operations(full, {})],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
