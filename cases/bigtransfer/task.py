"""Image classification that starts from the published weights of Big Transfer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from typing_extensions import override

from cases.image_classification.task import ImageClassification

# Names in the authors' .npz files, and timm's names.
RENAMED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"^resnet/"), ""),
    (re.compile(r"^block(\d+)/unit(\d+)/"), lambda match: f"stages.{int(match[1]) - 1}.blocks.{int(match[2]) - 1}."),
    (re.compile(r"^root_block/standardized_conv2d/kernel$"), "stem.conv.weight"),
    (re.compile(r"^head/conv2d/"), "head.fc."),
    (re.compile(r"^group_norm/"), "norm."),
    (re.compile(r"a/proj/standardized_conv2d/"), "downsample.conv."),
    (re.compile(r"([abc])/standardized_conv2d/"), lambda match: f"conv{'abc'.index(match[1]) + 1}."),
    (re.compile(r"([abc])/group_norm/"), lambda match: f"norm{'abc'.index(match[1]) + 1}."),
    (re.compile(r"(kernel|gamma)$"), "weight"),
    (re.compile(r"beta$"), "bias"),
)


class BigTransfer(ImageClassification):
    """Accepts the authors' .npz files, and timm's copies. The last layer starts at zero: its classes are new."""

    @override
    def initial_weights(self, checkpoint: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        published = any(name.startswith("resnet/") for name in checkpoint)
        weights = _as_in_timm(checkpoint) if published else dict(checkpoint)
        if "norm.weight" in weights:  # one for each feature that the last layer gets
            weights["head.fc.weight"] = torch.zeros(self.num_classes, len(weights["norm.weight"]), 1, 1)
            weights["head.fc.bias"] = torch.zeros(self.num_classes)
        return weights


def _as_in_timm(checkpoint: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names and order of dimensions as in timm: kernels are [height, width, in, out] in the files."""
    weights = {}
    for name, tensor in checkpoint.items():
        for pattern, replacement in RENAMED:
            name = pattern.sub(replacement, name)
        weights[name] = tensor.permute(3, 2, 0, 1) if tensor.dim() == 4 else tensor
    return weights
