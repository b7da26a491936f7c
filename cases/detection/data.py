"""COCO's layout: a folder of images a split, and one JSON file with their objects.

Images travel as uint8 from the loader to the device. There the task scales them, and the detector itself normalises,
resizes and pads them. Those of one batch have sizes of their own, so a batch is two lists: images and targets.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

from cases.detection.annotations import is_object, read_annotations
from cases.image_classification.data import read_image
from flagperf.errors import ConfigError

Target = Dict[str, Any]
Sample = Tuple[Tensor, Target]


class CocoImages(Dataset[Sample]):
    """All images of one split, for evaluation. The target of an image is its number in the annotations.

    Args:
        images, annotations: folder and JSON file of the split.
        masks: whether masks are evaluated, too.
    """

    def __init__(self, images: str, annotations: str, masks: bool = False) -> None:
        self.folder = Path(images)
        content = read_annotations(annotations, masks)
        self.images = [(image["file_name"], image["id"]) for image in content["images"]]

    def __len__(self) -> int:
        return len(self.images)

    def source(self, index: int) -> str:
        """The file of an image."""
        return self.images[index][0]  # type: ignore[no-any-return]

    def __getitem__(self, index: int) -> Sample:
        name, number = self.images[index]
        return read_image(str(self.folder / name)), {"image_id": number}

    @staticmethod
    def collate_fn(samples: Sequence[Sample]) -> tuple[list[Tensor], list[Target]]:
        """Images and targets of a batch; the images differ in size."""
        images, targets = zip(*samples)
        return list(images), list(targets)


class CocoObjects(Dataset[Sample]):
    """Images that have an object, with `boxes` (left, top, right, bottom in pixels), `labels` and perhaps `masks`.

    As in the original recipe, crowds are no objects, and boxes end where the image does.

    Args:
        images, annotations: folder and JSON file of the split.
        num_classes: classes of the network; category numbers of the annotations are below it, 0 is the background.
        transforms: of transforms.v2, for images and targets together.
        masks: whether targets have `masks` [objects, height, width], 1 where the object is.
        aspect_ratio_group_factor: images of a batch are alike in their ratio of width to height, which lies in one of
            so many ranges between 1/2 and 1, or between 1 and 2, or beyond; 0: two groups, wide and high images;
            None: one group.
        keep_empty: whether images without an object belong to the data.
    """

    collate_fn = staticmethod(CocoImages.collate_fn)

    def __init__(
        self,
        images: str,
        annotations: str,
        num_classes: int,
        transforms: Sequence[Any],
        masks: bool,
        aspect_ratio_group_factor: int | None,
        keep_empty: bool = False,
    ) -> None:
        self.folder, self.masks = Path(images), masks
        self.transform = v2.Compose([*transforms, v2.ToPureTensor()])
        content = read_annotations(annotations, masks, num_classes)
        records = [_record(image, objects, masks) for image, objects in _with_objects(content, keep_empty)]
        if not records:
            raise ConfigError("no image of this split has an object", where=annotations, key="data_dir")
        self.records = PackedRecords(records)
        self.groups = _groups([record["size"] for record in records], aspect_ratio_group_factor)

    def __len__(self) -> int:
        return len(self.records)

    def source(self, index: int) -> str:
        """The file of an image."""
        return self.records[index]["file_name"]  # type: ignore[no-any-return]

    def __getitem__(self, index: int) -> Sample:
        record = self.records[index]
        image, size = read_image(str(self.folder / record["file_name"])), record["size"]
        boxes = torch.tensor(record["boxes"], dtype=torch.float32).view(-1, 4)
        target: Target = {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),  # type: ignore[call-overload]
            "labels": torch.tensor(record["labels"], dtype=torch.int64),
        }
        if self.masks:
            target["masks"] = tv_tensors.Mask(draw_masks(record["segmentations"], size))
        transformed: Sample = self.transform(tv_tensors.Image(image), target)
        return transformed

    def batches(self, batch_size: int, generator: torch.Generator) -> list[list[int]]:
        """All batches of one epoch, each of one group, in the order in which they fill up."""
        batches: list[list[int]] = []
        filling: dict[int, list[int]] = defaultdict(list)
        for index in torch.randperm(len(self), generator=generator).tolist():
            group = self.groups[index]
            filling[group].append(index)
            if len(filling[group]) == batch_size:
                batches.append(filling.pop(group))
        return batches


class RandomSizeCrop:
    """A part of random size and place, at most the whole image. Objects outside it are left out.

    Args:
        min_size, max_size: pixels of a side; an image whose side has fewer keeps this side.
    """

    def __init__(self, min_size: int, max_size: int) -> None:
        self.min_size, self.max_size = min_size, max_size

    def __call__(self, image: Tensor, target: Target) -> Sample:
        """The part of the image, and the boxes and labels in it; without masks."""
        height, width = image.shape[-2:]
        new_height, new_width = self._side(height), self._side(width)
        top, left = _whole(0, height - new_height), _whole(0, width - new_width)
        image = v2.functional.crop(image, top, left, new_height, new_width)
        boxes = v2.functional.crop(target["boxes"], top, left, new_height, new_width)
        is_inside = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        kept = tv_tensors.wrap(boxes.as_subclass(Tensor)[is_inside], like=boxes)
        return image, {**target, "boxes": kept, "labels": target["labels"][is_inside]}

    def _side(self, length: int) -> int:
        return _whole(min(self.min_size, length), min(self.max_size, length))


def _whole(low: int, high: int) -> int:
    """A random number from low to high."""
    return int(torch.randint(low, high + 1, ()).item())


class PackedRecords:
    """Records as bytes of one array, which the processes of the loader share.

    As objects, COCO's polygons are a hundred million numbers with a reference count each, and a process that looks at
    one gets its own copy of the page.
    """

    def __init__(self, records: Iterable[Any]) -> None:
        pickled = [pickle.dumps(record, protocol=pickle.HIGHEST_PROTOCOL) for record in records]
        self._ends = np.cumsum([len(record) for record in pickled])
        self._bytes = b"".join(pickled)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Any:
        start = self._ends[index - 1] if index else 0
        return pickle.loads(memoryview(self._bytes)[start : self._ends[index]])


def draw_masks(segmentations: Sequence[Any], size: tuple[int, int]) -> Tensor:
    """Masks [objects, height, width], uint8, of polygons or run lengths as COCO writes them."""
    from faster_coco_eval.core import mask  # as pycocotools'; masks are for some cases only

    if not segmentations:
        return torch.zeros(0, *size, dtype=torch.uint8)
    encoded = []
    for segmentation in segmentations:
        runs = mask.frPyObjects(segmentation, *size)  # a list for polygons: an object may have several parts
        encoded.append(mask.merge(runs) if isinstance(runs, list) else runs)
    return torch.from_numpy(mask.decode(encoded)).permute(2, 0, 1).contiguous()


def _with_objects(content: Mapping[str, Any], keep_empty: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Images that have an annotation of more than a pixel's width and height, or all, and their annotations."""
    by_image = defaultdict(list)
    for annotation in content["annotations"]:
        by_image[annotation["image_id"]].append(annotation)
    for image in content["images"]:
        objects = by_image[image["id"]]
        if keep_empty or any(min(annotation["bbox"][2:]) > 1 for annotation in objects):
            yield image, objects


def _record(image: Mapping[str, Any], objects: Iterable[Mapping[str, Any]], masks: bool) -> dict[str, Any]:
    """The source of one sample."""
    width, height = image["width"], image["height"]
    record: dict[str, Any] = {"file_name": image["file_name"], "size": (height, width), "boxes": [], "labels": []}
    if masks:
        record["segmentations"] = []
    for annotation in objects:
        left, top, right, bottom = _corners(annotation["bbox"], width, height)
        if not is_object(annotation) or right <= left or bottom <= top:
            continue
        record["boxes"].append((left, top, right, bottom))
        record["labels"].append(annotation["category_id"])
        if masks:
            record["segmentations"].append(annotation["segmentation"])
    return record


def _corners(box: Sequence[float], width: int, height: int) -> tuple[float, float, float, float]:
    """Left, top, right and bottom within the image, of left, top, width and height."""
    left, top = box[0], box[1]
    right, bottom = left + box[2], top + box[3]
    return min(max(left, 0), width), min(max(top, 0), height), min(max(right, 0), width), min(max(bottom, 0), height)


def _groups(sizes: Sequence[tuple[int, int]], factor: int | None) -> list[int]:
    """The range that each image's ratio of width to height lies in."""
    if factor is None:
        return [0] * len(sizes)
    bounds = 2 ** np.linspace(-1, 1, 2 * factor + 1) if factor else np.array([1.0])
    ratios = [width / height for height, width in sizes]
    groups: list[int] = np.digitize(ratios, bounds).tolist()
    return groups
