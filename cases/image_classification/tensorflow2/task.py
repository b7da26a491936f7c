"""Image classification: cross-entropy loss, top-1 and top-5 accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Tuple

import keras
import tensorflow as tf
from numpy.typing import NDArray
from typing_extensions import override

from cases.image_classification.accuracy import CountedAccuracy
from cases.image_classification.tensorflow2.weights import from_torchvision

Batch = Tuple[tf.Tensor, tf.Tensor]  # images [n, height, width, 3], labels [n]


class ImageClassification(CountedAccuracy):
    """Batches of images and labels of cases.image_classification.tensorflow2.data.

    Args:
        pixel_mean, pixel_std: of red, green and blue in [0, 1]; the network gets (pixel - mean) / std.
        l2: the loss has so much of the sum of the squares of all kernels, and of the biases of the last layer.
    """

    def __init__(self, num_classes: int, pixel_mean: Sequence[float], pixel_std: Sequence[float], l2: float) -> None:
        self.num_classes, self.l2 = num_classes, l2
        self.pixel_mean, self.pixel_std = list(pixel_mean), list(pixel_std)

    def initial_weights(self, checkpoint: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Weights of torchvision's ResNet, saved as arrays."""
        return from_torchvision(checkpoint)

    def normalised(self, images: tf.Tensor) -> tf.Tensor:
        """Images as the network gets them."""
        return (tf.cast(images, tf.float32) / 255 - self.pixel_mean) / self.pixel_std

    @override
    def loss(self, network: keras.Model, batch: Batch) -> tf.Tensor:
        images, labels = batch
        scores = network(self.normalised(images), training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        return tf.reduce_mean(losses) + self.penalty(network)

    def penalty(self, network: keras.Model) -> tf.Tensor:
        """The part of the loss that keeps weights small; batch norm's are left out, as in FlagPerf's case."""
        weights = [weight for weight in network.trainable_weights if weight.name in ("kernel", "bias")]
        return self.l2 * tf.add_n([2 * tf.nn.l2_loss(tf.convert_to_tensor(weight)) for weight in weights])

    def operations(self, network: keras.Model, config: Mapping[str, Any]) -> float:  # noqa: ARG002
        """Two for each multiplication of convolutions and of the last layer, as PyTorch's counter has them."""
        matrices = [layer for layer in network.layers if hasattr(layer, "kernel")]
        places = [math.prod(layer.output.shape[1:-1]) for layer in matrices]
        return 2.0 * sum(math.prod(layer.kernel.shape) * many for layer, many in zip(matrices, places))

    def count(self, network: keras.Model, batch: Batch) -> tf.Tensor:
        """Images, and those whose class has the best score, or one of the best five."""
        images, labels = batch
        scores = network(self.normalised(images), training=False)
        best = [tf.math.in_top_k(labels, scores, min(k, self.num_classes)) for k in (1, 5)]
        numbers = (tf.size(labels), *(tf.math.count_nonzero(correct) for correct in best))
        return tf.stack([tf.cast(number, tf.float64) for number in numbers])
