"""Image classification: cross-entropy loss, top-1 and top-5 accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Sequence

import mindspore
from mindspore import Tensor, nn, ops
from numpy.typing import NDArray
from typing_extensions import override

from cases.image_classification.accuracy import CountedAccuracy
from cases.image_classification.mindspore.network import multiplications
from cases.image_classification.mindspore.weights import from_torchvision

Batch = Sequence[Tensor]  # images [n, 3, height, width], labels [n]


class ImageClassification(CountedAccuracy):
    """Batches of images and labels of cases.image_classification.mindspore.data.

    Args:
        pixel_mean, pixel_std: of red, green and blue in [0, 1]; the network gets (pixel - mean) / std.
    """

    def __init__(self, num_classes: int, pixel_mean: Sequence[float], pixel_std: Sequence[float]) -> None:
        self.num_classes = num_classes
        self.pixel_mean, self.pixel_std = (
            Tensor(of_channel, mindspore.float32).reshape(1, 3, 1, 1) for of_channel in (pixel_mean, pixel_std)
        )

    def parameters(self, network: nn.Cell) -> Any:
        """One group: MindSpore leaves batch norm out of the weight decay of parameters without one."""
        return [{"params": network.trainable_params()}]

    def initial_weights(self, checkpoint: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Weights of torchvision's ResNet, saved as arrays."""
        return from_torchvision(checkpoint)

    def normalised(self, images: Tensor) -> Tensor:
        """Images as the network gets them."""
        return (images.astype(mindspore.float32) / 255 - self.pixel_mean) / self.pixel_std

    @override
    def loss(self, network: nn.Cell, batch: Batch) -> Tensor:
        images, labels = batch
        return ops.cross_entropy(network(self.normalised(images)).astype(mindspore.float32), labels)

    def operations(self, network: nn.Cell, config: Mapping[str, Any]) -> float:  # noqa: ARG002
        """Two for each multiplication of convolutions and of the last layer, as PyTorch's counter has them."""
        return 2.0 * multiplications(network)

    def count(self, network: nn.Cell, batch: Batch) -> tuple[int | Tensor, ...]:
        """Images, and those whose class has the best score, or one of the best five."""
        images, labels = batch
        scores = network(self.normalised(images)).astype(mindspore.float32)
        _, best = ops.topk(scores, min(5, self.num_classes))
        hits = best == labels.reshape(-1, 1)
        return len(labels), hits[:, :1].sum(), hits.sum()
