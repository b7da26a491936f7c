"""Object detection and instance segmentation: the sum of the detector's losses, COCO's mean average precision."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import torch
from torch import Tensor, distributed, nn
from typing_extensions import override

from flagperf.trainer.pytorch.task import Task

log = logging.getLogger(__name__)

Batch = Tuple[List[Tensor], List[Dict[str, Any]]]  # images [3, height, width], and their objects
Detections = List[Dict[str, Any]]  # as COCO's result files have them


class Detection(Task):
    """Batches of images and targets for a detector of torchvision.

    Args:
        annotations: JSON file of the evaluation split, with the objects that are to be found.
        iou_types: compared with these objects: boxes (`bbox`), masks (`segm`).
    """

    # The heads compute for as many proposals as are left after suppression, which the weights decide.
    operations_within = 0.1
    values_decide = True  # scores decide which proposals are kept

    def __init__(self, annotations: str, iou_types: Sequence[str]) -> None:
        self.annotations, self.iou_types = annotations, iou_types
        self.metrics = [f"map_{iou}" for iou in iou_types]

    def parameters(self, network: nn.Module) -> list[nn.Parameter]:
        """All but those of the frozen layers of the backbone."""
        return [parameter for parameter in network.parameters() if parameter.requires_grad]

    @override
    def pretrained(self, network: nn.Module) -> nn.Module:
        return network.backbone.body  # type: ignore[return-value,union-attr]

    def initial_weights(self, checkpoint: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A ResNet's weights without its classifier, nor the counters that frozen batch norm has not."""
        return {
            name: weight
            for name, weight in checkpoint.items()
            if not name.startswith("fc.") and not name.endswith(".num_batches_tracked")
        }

    @override
    def to_device(self, batch: Batch, device: torch.device, memory_format: torch.memory_format) -> Batch:
        move = partial(super().to_device, device=device, memory_format=memory_format)
        images, targets = batch
        return (
            [move(image).float() / 255 for image in images],
            [{name: move(value) for name, value in target.items()} for target in targets],
        )

    @override
    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        losses: dict[str, Tensor] = network(*batch)
        return torch.stack(list(losses.values())).sum()

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch[0])

    def example(self, config: Mapping[str, Any]) -> Batch:  # noqa: ARG002  # the detector itself resizes images
        """An image of COCO's usual size without objects, so that no mask is computed."""
        height, width = 480, 640
        nothing = {
            "boxes": torch.zeros(0, 4),
            "labels": torch.zeros(0, dtype=torch.long),
            "masks": torch.zeros(0, height, width, dtype=torch.uint8),
        }
        return [torch.zeros(3, height, width, dtype=torch.uint8)], [nothing]

    @override
    def full_batch(self, config: Mapping[str, Any], samples: int) -> Batch:
        """Images of COCO's usual size."""
        return with_objects(480, 640, samples)

    @override
    def evaluate(
        self,
        network: nn.Module,
        batches: Iterable[Batch],
        device: torch.device,
    ) -> dict[str, float]:
        """`map_bbox`, and with masks `map_segm`: average precision over IoU 0.5 to 0.95 and all categories."""
        predictions: Detections = []
        for images, targets in batches:
            for target, output in zip(targets, network(images)):
                predictions += detections(target["image_id"], output)
        return on_first_rank(predictions, self._average_precisions, self.group)

    def _average_precisions(self, predictions: Detections) -> dict[str, float]:
        return {f"map_{iou}": average_precision(self.annotations, predictions, iou) for iou in self.iou_types}


class DetectionByQueries(Detection):
    """Batches for cases.detection.network.Detr, whose backbone has a learning rate of its own.

    Args:
        backbone_lr: learning rate of the backbone.
        num_queries: of the network: objects that it can find in an image.
        no_object_weight: of a query without an object in the mean over the queries; one with an object has 1.
    """

    operations_within = Task.operations_within

    def __init__(
        self,
        annotations: str,
        iou_types: Sequence[str],
        backbone_lr: float,
        num_queries: int,
        no_object_weight: float,
    ) -> None:
        super().__init__(annotations, iou_types)
        self.backbone_lr = backbone_lr
        self.num_queries, self.no_object_weight = num_queries, no_object_weight

    @override
    def terms(self, network: nn.Module, batch: Batch) -> Tensor:
        """The losses of the classes and of the boxes."""
        losses: dict[str, Tensor] = network(*batch)
        return torch.stack([losses["classes"], losses["boxes"]])

    def weight(self, batch: Batch) -> Tensor:
        """The weights of all queries, and the objects."""
        images, targets = batch
        objects = sum(len(target["boxes"]) for target in targets)
        found = sum(min(len(target["boxes"]), self.num_queries) for target in targets)
        queries = found + self.no_object_weight * (len(images) * self.num_queries - found)
        return torch.stack([torch.full((), float(each), device=images[0].device) for each in (queries, objects)])

    @override
    def parameters(self, network: nn.Module) -> Any:
        backbone = self.pretrained(network)
        of_backbone = set(backbone.parameters())
        others = [parameter for parameter in super().parameters(network) if parameter not in of_backbone]
        return [{"params": others}, {"params": super().parameters(backbone), "lr": self.backbone_lr}]

    @override
    def pretrained(self, network: nn.Module) -> nn.Module:
        return network.model.backbone.model  # type: ignore[return-value,union-attr]

    @override
    def example(self, config: Mapping[str, Any]) -> Batch:
        return self.full_batch(config, 1)

    @override
    def full_batch(self, config: Mapping[str, Any], samples: int) -> Batch:
        """Images of COCO's usual shape at the largest scale of training, which decides the memory."""
        height: int = config["image_size"]
        return with_objects(height, height * 4 // 3, samples)


def with_objects(height: int, width: int, samples: int) -> Batch:
    """Images each with seven objects, as many as an image of COCO has on average."""
    shares = torch.arange(1, 8) / 16.0
    left, top = shares * width, shares * height
    target = {
        "boxes": torch.stack([left, top, left + width / 4, top + height / 4], dim=1),
        "labels": torch.ones(len(shares), dtype=torch.long),
        "masks": torch.ones(len(shares), height, width, dtype=torch.uint8),
    }
    return [torch.zeros(3, height, width, dtype=torch.uint8)] * samples, [target] * samples


def detections(image_id: int, output: Mapping[str, Tensor]) -> Detections:
    """The predictions of a detector in one image. Masks are run lengths: as pixels, a few images would fill a host."""
    from faster_coco_eval.core import mask

    left, top, right, bottom = output["boxes"].double().cpu().unbind(dim=1)
    boxes = torch.stack([left, top, right - left, bottom - top], dim=1)
    columns = {
        "bbox": boxes.tolist(),
        "score": output["scores"].tolist(),
        "category_id": output["labels"].tolist(),
    }
    if "masks" in output:
        pixels = (output["masks"] > 0.5).squeeze(1).permute(1, 2, 0).to(torch.uint8).cpu()
        columns["segmentation"] = mask.encode(np.asfortranarray(pixels.numpy()))
    rows = zip(*columns.values())
    return [{"image_id": image_id, **dict(zip(columns, row))} for row in rows]


def average_precision(annotations: str, predictions: Detections, iou_type: str) -> float:
    """COCO's first figure: over IoU 0.5, 0.55 … 0.95, all categories, at most 100 detections an image."""
    from faster_coco_eval import COCO, COCOeval_faster  # the metric of pycocotools, in C++

    if not predictions:
        return 0.0
    other = "bbox" if iou_type == "segm" else "segmentation"  # it would decide the area of a detection
    content = json.loads(Path(annotations).read_bytes())
    # Numbers from 1: the metric takes 0 for "not found", and the file may lack them or repeat one.
    numbered = [{**annotation, "id": number} for number, annotation in enumerate(content["annotations"], 1)]
    truth = COCO({**content, "annotations": numbered})
    results = truth.loadRes([{key: value for key, value in row.items() if key != other} for row in predictions])
    evaluation = COCOeval_faster(truth, results, iou_type, print_function=log.debug)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return round(float(evaluation.stats[0]), 6)


def on_first_rank(predictions: Detections, metrics: Any, group: Any) -> dict[str, float]:
    """Metrics of the detections of all ranks of a group, computed once and sent to each rank."""
    if not distributed.is_initialized():
        return metrics(predictions)
    first = distributed.get_global_rank(group or distributed.group.WORLD, 0)
    here = distributed.get_rank() == first
    gathered: list[Any] | None = [None] * distributed.get_world_size(group) if here else None
    distributed.gather_object(predictions, gathered, first, group)
    answer = [metrics([row for rows in gathered for row in rows]) if gathered else None]
    distributed.broadcast_object_list(answer, first, group)
    return answer[0]
