"""DETR of transformers with the interface of torchvision's detectors: images of any size, their losses or objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Dict

import scipy  # noqa: F401  # transformers needs both: ranks without them are refused before the start
import timm  # noqa: F401
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import box_convert
from transformers import DetrConfig, DetrForObjectDetection
from transformers.loss.loss_for_object_detection import ForObjectDetectionLoss
from transformers.models.detr.modeling_detr import DetrFrozenBatchNorm2d

Objects = Dict[str, Tensor]

ATTENTION_INPUTS = ("q_proj.weight", "k_proj.weight", "v_proj.weight")


class Detr(DetrForObjectDetection):  # type: ignore[no-untyped-call]
    """Each query finds one object, or none. Layers of the decoder are trained alike, each with its own matching.

    Norm, dropout and first weights are those of the original code, where transformers has others: each layer of the
    decoder gets the states of the layer before without the norm for the heads, and the encoder's input has no dropout.

    Args:
        config: of transformers; `auxiliary_loss` says whether the layers before the last one are trained directly.
        frozen: beginnings of the names of the backbone's parameters that are not trained.
        min_size, max_size: pixels of the shorter side of an image in the evaluation, and at most of the longer one. A
            training image is as large as the data set makes it.
        pixel_mean, pixel_std: of the channels, for values between 0 and 1.
    """

    def __init__(
        self,
        config: DetrConfig,
        frozen: Sequence[str],
        min_size: int,
        max_size: int,
        pixel_mean: Sequence[float],
        pixel_std: Sequence[float],
    ) -> None:
        of_network = deepcopy(config)
        of_network.auxiliary_loss = False  # else the norm for the heads would stand between the layers, too
        super().__init__(of_network)
        self.loss_config = config
        self.model.encoder.dropout = 0.0
        self.transform = GeneralizedRCNNTransform(
            min_size, max_size, list(pixel_mean), list(pixel_std), size_divisible=1
        )
        for name, parameter in self.model.backbone.model.named_parameters():
            parameter.requires_grad_(not name.startswith(tuple(frozen)))
        _draw_weights(self)

    def forward(self, images: list[Tensor], targets: Any = None) -> Any:
        """In training the losses of `classes` and `boxes`; else `boxes`, `scores` and `labels`, one object a query."""
        sizes = [_size(image) for image in images]
        if self.training:
            pixels = [self.transform.normalize(image) for image in images]
            batch = ImageList(self.transform.batch_images(pixels, size_divisible=1), sizes)
        else:
            batch, _ = self.transform(images)
        outputs = self.model(batch.tensors, pixel_mask=_inside(batch), output_hidden_states=True)
        states = self.model.decoder.layernorm(torch.stack(outputs.decoder_hidden_states[-self.config.decoder_layers :]))
        logits, boxes = self.class_labels_classifier(states).float(), self.bbox_predictor(states).float().sigmoid()
        if self.training:
            labels = [_label(target, size) for target, size in zip(targets, sizes)]
            return _losses(logits, boxes, labels, self.loss_config)
        found = [_objects(*each) for each in zip(logits[-1], boxes[-1], batch.image_sizes)]
        return self.transform.postprocess(found, batch.image_sizes, sizes)


def _size(image: Tensor) -> tuple[int, int]:
    height, width = image.shape[-2:]
    return height, width


def _inside(batch: ImageList) -> Tensor:
    """1 where a batch [images, channels, height, width] shows an image, 0 where it is filled up."""
    mask = torch.zeros_like(batch.tensors[:, 0])
    for row, (height, width) in zip(mask, batch.image_sizes):
        row[:height, :width] = 1
    return mask


def _label(target: Mapping[str, Tensor], size: tuple[int, int]) -> Objects:
    """Boxes as shares of the image: centre, width and height."""
    height, width = size
    boxes = box_convert(target["boxes"], "xyxy", "cxcywh")
    return {"class_labels": target["labels"], "boxes": boxes / boxes.new_tensor([width, height, width, height])}


def _losses(logits: Tensor, boxes: Tensor, labels: list[Objects], config: DetrConfig) -> dict[str, Tensor]:
    """Of [layers, images, queries, …]: the mean over the queries by the weights of classes, and that over the objects.

    transformers cannot match where no image of the batch has an object.
    """
    if any(len(label["boxes"]) for label in labels):
        of_last = logits[-1], labels, logits.device, boxes[-1]
        _, losses, _ = ForObjectDetectionLoss(*of_last, config, logits, boxes)  # type: ignore[no-untyped-call]
        classes, corners, overlaps = (
            torch.stack([loss for name, loss in losses.items() if name.startswith(kind)]).sum()
            for kind in ("loss_ce", "loss_bbox", "loss_giou")
        )
        weighted = config.bbox_loss_coefficient * corners + config.giou_loss_coefficient * overlaps
        return {"classes": classes, "boxes": weighted}
    trained = logits if config.auxiliary_loss else logits[-1:]
    nothing = torch.full_like(trained[..., 0], logits.shape[-1] - 1, dtype=torch.long)
    entropy = cross_entropy(trained.flatten(0, 2), nothing.flatten())
    return {"classes": len(trained) * entropy, "boxes": 0 * boxes.sum()}  # each parameter has a gradient


def _objects(logits: Tensor, boxes: Tensor, size: tuple[int, int]) -> Objects:
    """The most likely class of each query, and its box in pixels."""
    height, width = size
    scores, labels = logits.softmax(dim=-1)[:, :-1].max(dim=-1)  # the last one says that there is no object
    corners = box_convert(boxes, "cxcywh", "xyxy") * boxes.new_tensor([width, height, width, height])
    return {"boxes": corners, "scores": scores, "labels": labels}


@torch.no_grad()
def _draw_weights(network: DetrForObjectDetection) -> None:
    """First weights as the original code draws them; a checkpoint replaces those of the backbone."""
    for module in network.modules():
        if isinstance(module, DetrFrozenBatchNorm2d):
            module.weight.fill_(1)
        elif isinstance(module, (nn.Linear, nn.Conv2d, nn.Embedding)):
            module.reset_parameters()
    for name, weight in _of_layers(network):
        if weight.dim() > 1:
            gain = 0.5**0.5 if name.endswith(ATTENTION_INPUTS) else 1.0  # there they are one matrix, thrice as high
            nn.init.xavier_uniform_(weight, gain)
        elif "attn." in name:
            nn.init.zeros_(weight)


def _of_layers(network: DetrForObjectDetection) -> Iterable[tuple[str, Tensor]]:
    yield from network.model.encoder.named_parameters()
    yield from network.model.decoder.named_parameters()
