"""ResNet v1.5 (arXiv:1512.03385, the stride in the 3 x 3 convolution) of MindSpore's cells.

The same network as torchvision's `ResNet(Bottleneck, layers, width_per_group=…)`, with the same names of the cells.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain

from mindspore import Tensor, nn, ops
from mindspore.common.initializer import HeNormal, Uniform

EPSILON = 1e-5  # of batch norm
MOMENTUM = 0.9  # share of a moving mean or variance that a step keeps
FIRST = 64  # channels of the stem
EXPANSION = 4  # channels of a block's output for one of its stage


class ResNet(nn.Cell):  # type: ignore[misc]
    """Images [n, 3, height, width] → scores [n, num_classes].

    Args:
        blocks: of each stage.
        image_size: pixels of a side, for the number of operations.
        width_per_group: channels within a block of the first stage.
    """

    def __init__(self, blocks: Sequence[int], num_classes: int, image_size: int, width_per_group: int = 64) -> None:
        super().__init__()
        self.image_size = image_size
        self.conv1 = convolution(3, FIRST, 7, 2)
        self.bn1 = normalisation(FIRST)
        self.maxpool = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        self.stages, channels = len(blocks), FIRST
        for stage, count in enumerate(blocks):
            planes = FIRST * 2**stage
            cells = []
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                cells.append(Bottleneck(channels, planes, width_per_group, stride, shortcut=block == 0))
                channels = EXPANSION * planes
            setattr(self, f"layer{stage + 1}", nn.SequentialCell(cells))
        bound = 1 / math.sqrt(channels)  # as PyTorch draws a linear layer
        self.fc = nn.Dense(channels, num_classes, Uniform(bound), Uniform(bound))

    def construct(self, images: Tensor) -> Tensor:
        """Scores, [images, classes]."""
        hidden = self.maxpool(ops.relu(self.bn1(self.conv1(images))))
        for stage in self.layers():
            hidden = stage(hidden)
        return self.fc(ops.mean(hidden, (2, 3)))

    def layers(self) -> list[nn.SequentialCell]:
        """The stages."""
        return [getattr(self, f"layer{number}") for number in range(1, self.stages + 1)]


class Bottleneck(nn.Cell):  # type: ignore[misc]
    """1 x 1, 3 x 3 and 1 x 1 convolutions, beside the input or, with `shortcut`, a 1 x 1 convolution of it.

    A 1 x 1 convolution with a stride leaves out the pixels that it does not use. Here they are left out before it: the
    numbers are the same, and MindSpore's kernel of a CPU takes fifty times as long with a stride.
    """

    def __init__(self, channels: int, planes: int, width_per_group: int, stride: int, *, shortcut: bool) -> None:
        super().__init__()
        width = planes * width_per_group // 64
        self.conv1, self.bn1 = convolution(channels, width, 1, 1), normalisation(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), normalisation(width)
        self.conv3, self.bn3 = convolution(width, EXPANSION * planes, 1, 1), normalisation(EXPANSION * planes)
        self.stride, self.downsample = stride, None
        if shortcut:
            cells = {"0": convolution(channels, EXPANSION * planes, 1, 1), "1": normalisation(EXPANSION * planes)}
            if stride > 1:
                cells = {"thinned": nn.MaxPool2d(1, stride), **cells}
            self.downsample = nn.SequentialCell(OrderedDict(cells))

    def construct(self, inputs: Tensor) -> Tensor:
        """The output of the block, [images, channels, height, width]."""
        hidden = ops.relu(self.bn1(self.conv1(inputs)))
        hidden = ops.relu(self.bn2(self.conv2(hidden)))
        hidden = self.bn3(self.conv3(hidden))
        beside = inputs if self.downsample is None else self.downsample(inputs)
        return ops.relu(hidden + beside)


def convolution(given: int, channels: int, size: int, stride: int) -> nn.Conv2d:
    """A convolution without bias; its padding keeps the size where the stride is 1."""
    initial = HeNormal(mode="fan_out", nonlinearity="relu")
    padding = size // 2
    return nn.Conv2d(given, channels, size, stride, "pad", padding, has_bias=False, weight_init=initial)


def normalisation(channels: int) -> nn.BatchNorm2d:
    """Batch norm."""
    return nn.BatchNorm2d(channels, EPSILON, MOMENTUM)


def multiplications(network: ResNet) -> int:
    """Of a forward pass over one image: numbers of each matrix, times the places where it is applied."""
    side = halved(network.image_size)
    total = math.prod(network.conv1.weight.shape) * side**2
    side = halved(side)  # the pooling
    for block in chain.from_iterable(network.layers()):
        total += math.prod(block.conv1.weight.shape) * side**2
        side = halved(side) if block.stride == 2 else side
        total += (math.prod(block.conv2.weight.shape) + math.prod(block.conv3.weight.shape)) * side**2
        if block.downsample is not None:
            total += math.prod(block.downsample[-2].weight.shape) * side**2
    return total + math.prod(network.fc.weight.shape)


def halved(side: int) -> int:
    """Pixels of a side after a stride of 2, with zeros around the image."""
    return (side + 1) // 2
