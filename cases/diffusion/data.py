"""Images with the noise and the time that a training or an evaluation uses."""

from __future__ import annotations

from typing import Any, Dict

import torch
from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder

from cases.diffusion.flow import TIMES, generator_of

Sample = Dict[str, Any]  # image uint8 [3, height, width], label, noise float32 like the image, time


class Noised(Dataset[Sample]):
    """Images with random noise and times near the middle: the logit of a time is normal (arXiv:2403.03206).

    Args:
        images: a folder of images.
        fixed: each image has the same noise and time in each epoch, for an evaluation.
    """

    def __init__(self, images: ImageFolder, fixed: bool = False) -> None:
        self.images, self.fixed, self.classes = images, fixed, images.classes

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        image, label = self.images[index]
        noise = torch.randn(image.shape, generator=generator_of(index, self.fixed))
        time = torch.tensor(index % TIMES / TIMES) if self.fixed else torch.randn(()).sigmoid()
        return {"image": image, "label": label, "noise": noise, "time": time}
