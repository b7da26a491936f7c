"""Folders of images, one sub-folder a class, read by TensorFlow's operations with ImageNet's augmentation.

Images travel as uint8 to the device, where the task makes them numbers around zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from typing_extensions import override

from cases.image_classification.folders import labelled
from cases.image_classification.refusals import unreadable
from flagperf.errors import ConfigError
from flagperf.trainer.tensorflow2.data import Dataset

KINDS = (".jpg", ".jpeg", ".png", ".bmp", ".gif")  # that tf.io.decode_image reads
RATIOS = (3 / 4, 4 / 3)  # width to height of a random crop


class Images(Dataset):
    """Images [image_size, image_size, 3], uint8, and the numbers of their classes, in the order of their paths.

    Args:
        root: the folder of a split.
        num_classes: of the network; the split has no more.
    """

    def __init__(self, root: str, num_classes: int, image_size: int) -> None:
        self.root, self.image_size = root, image_size
        images = labelled(root, num_classes, KINDS)
        self.classes = images.classes
        self.paths = tf.constant(images.paths)
        self.labels = tf.constant(images.labels, tf.int64)

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    @override
    def read(self, index: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        data = tf.io.read_file(self.paths[index])
        pixels = tf.clip_by_value(tf.round(self.cut(data, seed)), 0, 255)
        return tf.ensure_shape(tf.cast(pixels, tf.uint8), [self.image_size, self.image_size, 3]), self.labels[index]

    @override
    def unreadable(self, index: int, reason: str) -> ConfigError:
        return unreadable(self.paths[index].numpy().decode(), reason)

    def cut(self, data: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """The part of a file's image that the network gets, [image_size, image_size, 3], numbers from 0 to 255."""
        raise NotImplementedError


class RandomCrops(Images):
    """Training images: a random part, resized, and perhaps flipped.

    Args:
        scale: least and largest share of the image's area in a crop.
        flip: probability of a horizontal flip.
    """

    def __init__(self, root: str, num_classes: int, image_size: int, scale: Sequence[float], flip: float) -> None:
        super().__init__(root, num_classes, image_size)
        self.scale, self.flip = tuple(scale), flip

    @override
    def cut(self, data: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = decoded(data)
        begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.shape(image),
            tf.zeros([1, 0, 4]),
            seed,
            min_object_covered=0.0,
            aspect_ratio_range=RATIOS,
            area_range=self.scale,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        crop = tf.image.resize(tf.slice(image, begin, size), [self.image_size] * 2, antialias=True)
        flips = tf.random.stateless_uniform([], seed + 1) < self.flip
        return tf.cond(flips, lambda: crop[:, ::-1], lambda: crop)


class CentreCrops(Images):
    """Evaluation images: the shorter side resized, and the centre.

    Args:
        resize_size: pixels of the shorter side.
    """

    def __init__(self, root: str, num_classes: int, image_size: int, resize_size: int) -> None:
        super().__init__(root, num_classes, image_size)
        self.resize_size = resize_size

    @override
    def cut(self, data: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = decoded(data)
        sides = tf.shape(image)[:2]
        large = tf.image.resize(image, sides * self.resize_size // tf.reduce_min(sides), antialias=True)
        top, left = tf.unstack((tf.shape(large)[:2] - self.image_size) // 2)
        return tf.image.crop_to_bounding_box(large, top, left, self.image_size, self.image_size)


def decoded(data: tf.Tensor) -> tf.Tensor:
    """RGB pixels [height, width, 3] of a file's content, uint8."""
    image = tf.io.decode_image(data, channels=3, expand_animations=False)
    image.set_shape([None, None, 3])
    return image
