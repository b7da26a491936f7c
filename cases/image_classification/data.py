"""Folders of images, one sub-folder a class, with the augmentation of the original ImageNet recipe.

Images travel as uint8 from the loader to the device, where the task makes them numbers around zero: a quarter of the
memory traffic, and the processes of the loader only decode, crop and resize.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import v2

from cases.image_classification.refusals import no_images, too_many_classes, unreadable


def images(root: str, num_classes: int, transforms: Sequence[Any]) -> ImageFolder:
    """Images [3, height, width], uint8, after the transforms of a recipe, and the numbers of their classes."""
    try:
        folder = ImageFolder(root, v2.Compose(list(transforms)), loader=read_image)
    except FileNotFoundError as error:
        raise no_images(root, str(error)) from None
    if len(folder.classes) > num_classes:
        raise too_many_classes(root, num_classes, len(folder.classes))
    return folder


def read_image(path: str) -> Tensor:
    """RGB pixels [3, height, width] of one file, uint8. torchvision's decoder; PIL takes 1.7 times as long."""
    try:
        image = decode_image(read_file(path), mode=ImageReadMode.RGB)
    except RuntimeError as error:
        raise unreadable(path, str(error).splitlines()[0]) from None
    return image if image.dtype == torch.uint8 else v2.functional.to_dtype(image, torch.uint8, scale=True)  # of 16 bits


class RepeatedAugmentation:
    """Training images: `repeats` consecutive batches show the same images, each with another augmentation.

    So the ranks see different versions of an image in the same step (Hoffer et al. 2020, as in torchvision's recipes).
    An epoch has the same number of batches as without repetition, and shows one image of `repeats`. A single rank
    repeats nothing, as in the recipes.

    Args:
        ranks: factors of the number of ranks: nodes, and devices of each.
    """

    def __init__(self, dataset: ImageFolder, repeats: int, ranks: Sequence[int]) -> None:
        self.dataset, self.repeats = dataset, repeats if math.prod(ranks) > 1 else 1
        self.classes = dataset.classes

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.dataset[index]  # type: ignore[no-any-return]

    def batches(self, batch_size: int, generator: torch.Generator) -> list[list[int]]:
        """All batches of one epoch. The order within them differs, so that MixUp and CutMix find other partners."""
        order = torch.randperm(len(self), generator=generator)
        batches: list[list[int]] = []
        for number in range(len(self) // batch_size):
            start = number // self.repeats * batch_size
            inner = torch.randperm(batch_size, generator=generator)
            batches.append(order[start : start + batch_size][inner].tolist())
        return batches


class RandomErasing(v2.RandomErasing):
    """v2.RandomErasing for uint8 images, with the value in units of the normalised image: 0 is the mean colour."""

    def __init__(self, p: float, value: float | str, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__(p, value=value)
        self.mean, self.std = (torch.tensor(of_channel).view(-1, 1, 1) for of_channel in (mean, std))

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The random box, and its filling in whole numbers from 0 to 255."""
        drawn = super().make_params if hasattr(super(), "make_params") else super()._get_params
        params: dict[str, Any] = drawn(flat_inputs)
        if params["v"] is not None:
            params["v"] = ((params["v"] * self.std + self.mean) * 255).round().clamp(0, 255).to(torch.uint8)
        return params

    _get_params = make_params  # its name before torchvision 0.21
