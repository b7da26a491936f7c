"""Image classification: cross-entropy loss, top-1 and top-5 accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.transforms.v2.functional import normalize, to_dtype
from typing_extensions import override

from cases.optimization import decay_except
from flagperf.trainer.pytorch.task import Task

Batch = Tuple[Tensor, Tensor]  # images [n, 3, height, width], labels [n]


class ImageClassification(Task):
    """Batches of images and labels from a torchvision data set.

    Args:
        pixel_mean, pixel_std: of red, green and blue in [0, 1]; the network gets (pixel - mean) / std.
        label_smoothing: share of a label that is spread over all classes, in training.
        mix: mixes the images of a training batch, and their labels with them: MixUp, CutMix.
        no_decay: parameters without weight decay, as patterns of "<class of the module>.<name of the parameter>".
    """

    metrics = ("acc1", "acc5")
    one_call_per_batch = True

    def __init__(
        self,
        num_classes: int,
        pixel_mean: Sequence[float],
        pixel_std: Sequence[float],
        label_smoothing: float = 0.0,
        mix: Callable[[Tensor, Tensor], Batch] | None = None,
        no_decay: Sequence[str] = (),
    ) -> None:
        self.num_classes = num_classes
        self.pixel_mean, self.pixel_std = list(pixel_mean), list(pixel_std)
        self.label_smoothing = label_smoothing
        self.mix = mix
        self.no_decay = no_decay

    @override
    def parameters(self, network: nn.Module) -> Any:
        return decay_except(network, self.no_decay)

    @override
    def to_device(self, batch: Batch, device: torch.device, memory_format: torch.memory_format) -> Batch:
        images, labels = (part.to(device, non_blocking=True) for part in batch)
        images = normalize(to_dtype(images, torch.float32, scale=True), self.pixel_mean, self.pixel_std)
        return images.contiguous(memory_format=memory_format), labels

    @override
    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        images, labels = self.mix(*batch) if self.mix else batch
        return functional.cross_entropy(network(images), labels, label_smoothing=self.label_smoothing)

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch[1])

    def example(self, config: Mapping[str, Any]) -> Batch:
        """Two images: batch norm needs more than one value."""
        size = config["image_size"]
        return torch.zeros(2, 3, size, size, dtype=torch.uint8), torch.zeros(2, dtype=torch.long)

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """Top-1 (`acc1`) and top-5 (`acc5`) accuracy in percent."""
        from torchmetrics import MetricCollection  # late: its import takes seconds
        from torchmetrics.classification import MulticlassAccuracy

        accuracy = MetricCollection(
            {
                name: MulticlassAccuracy(
                    self.num_classes,
                    top_k=min(k, self.num_classes),
                    average="micro",
                    validate_args=False,
                    process_group=self.group,
                )
                for name, k in (("acc1", 1), ("acc5", 5))
            }
        ).to(device)
        for images, labels in batches:
            accuracy.update(network(images), labels)
        # float32 has seven digits: without rounding, 75.5 % would be just below 75.5.
        return {name: round(100 * float(share), 4) for name, share in accuracy.compute().items()}
