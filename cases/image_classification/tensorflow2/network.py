"""ResNet v1.5 (arXiv:1512.03385, the stride in the 3 x 3 convolution) of Keras's layers.

The same network as torchvision's `ResNet(Bottleneck, layers, width_per_group=…)`: convolutions without biases, padded
alike on both sides. `keras.applications.ResNet50` is v1, with biases, and has 26,560 parameters more.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import layers

EPSILON = 1e-5  # of batch norm
MOMENTUM = 0.9  # share of a moving mean or variance that a step keeps
FIRST = 64  # channels of the stem
EXPANSION = 4  # channels of a block's output for one of its stage


def resnet(blocks: Sequence[int], num_classes: int, image_size: int, width_per_group: int = 64) -> keras.Model:
    """Images [n, height, width, 3] → scores [n, num_classes], float32.

    Layers have torchvision's names, with / for the dot. weights.py carries weights over.

    Args:
        blocks: of each stage.
        image_size: pixels of a side.
        width_per_group: channels within a block of the first stage.
    """
    images = keras.Input((image_size, image_size, 3))
    hidden = normalised(convolution(images, FIRST, 7, 2, "conv1"), "bn1")
    hidden = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(layers.ReLU()(hidden)))  # no number here is below 0
    for stage, count in enumerate(blocks, start=1):
        planes = FIRST * 2 ** (stage - 1)
        for block in range(count):
            stride = 2 if stage > 1 and block == 0 else 1
            hidden = bottleneck(hidden, planes, width_per_group, stride, f"layer{stage}-{block}", shortcut=block == 0)
    pooled = layers.GlobalAveragePooling2D()(hidden)
    scores = layers.Dense(num_classes, kernel_initializer=of_linear(), dtype="float32", name="fc")(pooled)
    return keras.Model(images, scores)


def bottleneck(
    given: keras.KerasTensor, planes: int, width_per_group: int, stride: int, name: str, *, shortcut: bool
) -> keras.KerasTensor:
    """1 x 1, 3 x 3 and 1 x 1 convolutions, beside the input or, with `shortcut`, a 1 x 1 convolution of it."""
    width = planes * width_per_group // 64
    hidden = layers.ReLU()(normalised(convolution(given, width, 1, 1, f"{name}-conv1"), f"{name}-bn1"))
    hidden = layers.ReLU()(normalised(convolution(hidden, width, 3, stride, f"{name}-conv2"), f"{name}-bn2"))
    hidden = normalised(convolution(hidden, EXPANSION * planes, 1, 1, f"{name}-conv3"), f"{name}-bn3")
    if shortcut:
        beside = convolution(given, EXPANSION * planes, 1, stride, f"{name}-downsample-0")
        given = normalised(beside, f"{name}-downsample-1")
    return layers.ReLU()(layers.Add()([hidden, given]))


def convolution(given: keras.KerasTensor, channels: int, size: int, stride: int, name: str) -> keras.KerasTensor:
    """A convolution without bias; its padding keeps the size where the stride is 1."""
    if size > 1:
        given = layers.ZeroPadding2D(size // 2)(given)
    initial = keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    return layers.Conv2D(channels, size, stride, use_bias=False, kernel_initializer=initial, name=name)(given)


def normalised(given: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """Batch norm."""
    return layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, name=name)(given)


def of_linear() -> keras.initializers.Initializer:
    """First weights of a linear layer as PyTorch draws them: evenly within 1 / sqrt(inputs)."""
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
