"""Folders of images, one sub-folder a class, read by MindSpore's operations with ImageNet's augmentation.

Images travel as uint8 to the device, where the task makes them numbers around zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Tuple

import numpy as np
from mindspore.dataset import vision
from numpy.typing import NDArray
from typing_extensions import override

from cases.image_classification.folders import labelled
from cases.image_classification.refusals import unreadable
from flagperf.trainer.mindspore.data import Dataset

KINDS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff")  # that vision.read_image reads
RATIOS = (3 / 4, 4 / 3)  # width to height of a random crop
ATTEMPTS = 10  # to find a random crop within the image

Pixels = NDArray[np.uint8]
Box = Tuple[int, int, int, int]  # top, left, height, width


class Images(Dataset):
    """Images [3, image_size, image_size], uint8, and the numbers of their classes, in the order of their paths.

    Args:
        root: the folder of a split.
        num_classes: of the network; the split has no more.
    """

    def __init__(self, root: str, num_classes: int, image_size: int) -> None:
        self.root, self.image_size = root, image_size
        self.classes, self.paths, self.labels = labelled(root, num_classes, KINDS)

    def __len__(self) -> int:
        return len(self.labels)

    @override
    def read(self, index: int, generator: np.random.Generator) -> tuple[Pixels, Any]:
        try:
            image = vision.read_image(self.paths[index], vision.ImageReadMode.COLOR)
        except RuntimeError as error:
            raise unreadable(self.paths[index], str(error).strip().splitlines()[0]) from None
        cut = self.cut(image, generator)
        return np.ascontiguousarray(cut.transpose(2, 0, 1)), np.int32(self.labels[index])

    def cut(self, image: Pixels, generator: np.random.Generator) -> Pixels:
        """The part of an image [height, width, 3] that the network gets, [image_size, image_size, 3]."""
        raise NotImplementedError


class RandomCrops(Images):
    """Training images: a random part, resized, and perhaps flipped.

    Args:
        scale: least and largest share of the image's area in a crop.
        flip: probability of a horizontal flip.
    """

    def __init__(self, root: str, num_classes: int, image_size: int, scale: Sequence[float], flip: float) -> None:
        super().__init__(root, num_classes, image_size)
        self.scale, self.flip = (scale[0], scale[1]), flip
        self.resize = vision.Resize([image_size] * 2)  # an operation costs more to make than to apply

    @override
    def cut(self, image: Pixels, generator: np.random.Generator) -> Pixels:
        top, left, height, width = random_box(image.shape[0], image.shape[1], self.scale, generator)
        crop: Pixels = self.resize(np.ascontiguousarray(image[top : top + height, left : left + width]))
        return crop[:, ::-1] if generator.random() < self.flip else crop


class CentreCrops(Images):
    """Evaluation images: the shorter side resized, and the centre.

    Args:
        resize_size: pixels of the shorter side.
    """

    def __init__(self, root: str, num_classes: int, image_size: int, resize_size: int) -> None:
        super().__init__(root, num_classes, image_size)
        self.resize, self.centre = vision.Resize(resize_size), vision.CenterCrop(image_size)

    @override
    def cut(self, image: Pixels, generator: np.random.Generator) -> Pixels:
        return self.centre(self.resize(image))  # type: ignore[no-any-return]


def random_box(height: int, width: int, scale: tuple[float, float], generator: np.random.Generator) -> Box:
    """A part of an image with a random share of its area and a random shape, as torchvision draws it.

    After ATTEMPTS boxes outside of the image: the largest box of an allowed shape around its centre.
    """
    low, high = (math.log(ratio) for ratio in RATIOS)
    for _ in range(ATTEMPTS):
        area, ratio = height * width * generator.uniform(*scale), math.exp(generator.uniform(low, high))
        tall, wide = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < tall <= height and 0 < wide <= width:
            return int(generator.integers(height - tall + 1)), int(generator.integers(width - wide + 1)), tall, wide
    ratio = min(max(width / height, RATIOS[0]), RATIOS[1])
    tall, wide = min(height, round(width / ratio)), min(width, round(height * ratio))
    return (height - tall) // 2, (width - wide) // 2, tall, wide
