"""COCO's files: what is read is what lies on disk, batches are alike in shape, and what cannot be used is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

from cases.detection.data import CocoImages, CocoObjects, PackedRecords, draw_masks
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.loading import Loader, on_device

Config = dict[str, Any]


@pytest.fixture
def shapes(data_dir: Callable[[str], Path]) -> Path:
    return data_dir("mask_rcnn")


def objects(folder: Path, **arguments: Any) -> CocoObjects:
    """The evaluation split of the sample data, as training would read it."""
    defaults = {"num_classes": 4, "transforms": [], "masks": True, "aspect_ratio_group_factor": 3}
    files = (str(folder / "val2017"), str(folder / "annotations/instances_val2017.json"))
    return CocoObjects(*files, **{**defaults, **arguments})


def content(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "annotations" / "instances_val2017.json").read_text())


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")  # pycocotools, of itself
def test_targets_equal_those_of_torchvision(shapes: Path) -> None:
    """Without crowds; torchvision reads the same pixels with PIL."""
    files = (shapes / "val2017", shapes / "annotations/instances_val2017.json")
    keys = ["boxes", "labels", "masks", "iscrowd"]
    library = wrap_dataset_for_transforms_v2(CocoDetection(*files, transform=v2.PILToTensor()), target_keys=keys)
    wanted = [(image, target) for image, target in library if "boxes" in target]
    found = list(objects(shapes))
    assert len(found) == len(wanted) < len(library)
    for (image, target), (library_image, library_target) in zip(found, wanted, strict=True):
        keep = ~torch.tensor(library_target["iscrowd"], dtype=torch.bool)
        size = torch.tensor([*image.shape[:0:-1]] * 2)
        boxes = library_target["boxes"][keep].clamp(min=torch.zeros(4), max=size)
        assert torch.allclose(target["boxes"], boxes, rtol=0, atol=1e-4)
        assert torch.equal(target["labels"], library_target["labels"][keep])
        assert torch.equal(target["masks"], library_target["masks"][keep])
        assert torch.equal(image, library_image)
        assert {type(part) for part in (image, *target.values())} == {torch.Tensor}


def test_sample_data_has_crowds_and_empty_images(shapes: Path) -> None:
    annotations = content(shapes)["annotations"]
    crowds = [annotation for annotation in annotations if annotation["iscrowd"]]
    assert len(crowds) > 1
    assert all(isinstance(crowd["segmentation"], dict) for crowd in crowds)
    assert len({annotation["image_id"] for annotation in annotations}) < 60
    for annotation, mask in zip(
        crowds, (draw_masks([crowd["segmentation"]], crowd["segmentation"]["size"]) for crowd in crowds), strict=True
    ):
        _, rows, columns = torch.nonzero(mask, as_tuple=True)
        left, top, width, height = annotation["bbox"]
        assert mask.sum() == annotation["area"]
        assert [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] == [
            left,
            top,
            left + width,
            top + height,
        ]


def test_evaluation_has_every_image(shapes: Path) -> None:
    data = CocoImages(str(shapes / "val2017"), str(shapes / "annotations/instances_val2017.json"))
    numbers = [target["image_id"] for _, target in data]
    assert numbers == [image["id"] for image in content(shapes)["images"]] == list(range(1, 61))


def test_images_and_targets_are_flipped_together(shapes: Path) -> None:
    plain, flipped = objects(shapes), objects(shapes, transforms=[v2.RandomHorizontalFlip(p=1.0)])
    for (image, target), (mirrored, other) in zip(plain, flipped, strict=True):
        width = image.shape[-1]
        left, top, right, bottom = target["boxes"].unbind(dim=1)
        assert torch.equal(mirrored, image.flip(-1))
        assert torch.allclose(other["boxes"], torch.stack([width - right, top, width - left, bottom], dim=1))
        assert torch.equal(other["masks"], target["masks"].flip(-1))


def test_only_mask_rcnn_draws_masks(tiny: Callable[[str], Config]) -> None:
    keys = {case: set(component(tiny(case), "train_data")[0][1]) for case in ("faster_rcnn", "mask_rcnn", "retinanet")}
    assert keys == {
        "faster_rcnn": {"boxes", "labels"},
        "mask_rcnn": {"boxes", "labels", "masks"},
        "retinanet": {"boxes", "labels"},
    }


def made_up(folder: Path, annotations: list[dict[str, Any]], images: int = 1, size: int = 20) -> CocoObjects:
    """A data set of images that are not there."""
    listed = [{"id": number, "file_name": f"{number}.jpg", "width": size, "height": size} for number in range(images)]
    path = folder / "annotations.json"
    path.write_text(json.dumps({"images": listed, "annotations": annotations, "categories": [{"id": 1}]}))
    return CocoObjects(str(folder), str(path), 4, [], masks=False, aspect_ratio_group_factor=3)


def annotation(box: list[float], **more: Any) -> dict[str, Any]:
    return {"image_id": 0, "category_id": 1, "bbox": box, "iscrowd": 0, **more}


@pytest.mark.parametrize(
    ("annotations", "boxes"),
    [
        pytest.param([annotation([2, 3, 4, 5])], [(2, 3, 6, 8)], id="left, top, width, height"),
        pytest.param([annotation([-2, 15, 10, 10])], [(0, 15, 8, 20)], id="ends with the image"),
        pytest.param([annotation([2, 3, 4, 5]), annotation([5, 5, 0, 2])], [(2, 3, 6, 8)], id="nothing of no width"),
        pytest.param([annotation([2, 3, 4, 5]), annotation([25, 5, 9, 2])], [(2, 3, 6, 8)], id="nothing outside"),
        pytest.param([annotation([2, 3, 4, 5], iscrowd=1)], [], id="a crowd is no object, but the image stays"),
        pytest.param([annotation([2, 3, 1, 5]), annotation([2, 3, 5, 0.5])], None, id="a line is no object"),
        pytest.param([], None, id="no annotation"),
    ],
)
def test_which_boxes_are_learnt(
    tmp_path: Path, annotations: list[dict[str, Any]], boxes: list[tuple[float, ...]] | None
) -> None:
    if boxes is None:
        with pytest.raises(ConfigError, match=r"^no image of this split has an object\n"):
            made_up(tmp_path, annotations)
    else:
        (record,) = made_up(tmp_path, annotations).records
        assert (record["boxes"], record["labels"]) == (boxes, [1] * len(boxes))


@pytest.mark.parametrize("factor", [0, 1, 3])
def test_a_batch_is_alike_in_shape(shapes: Path, factor: int) -> None:
    """Groups are torchvision's: ranges of the ratio between powers of two."""
    data = objects(shapes, aspect_ratio_group_factor=factor)
    bounds = [2 ** (step / factor - 1) for step in range(2 * factor + 1)] if factor else [1.0]
    ratios = [record["size"][1] / record["size"][0] for record in data.records]
    groups = [sum(ratio >= bound for bound in bounds) for ratio in ratios]
    batches = data.batches(4, torch.Generator().manual_seed(1))
    assert {len(batch) for batch in batches} == {4}
    assert all(len({groups[index] for index in batch}) == 1 for batch in batches)
    assert len(batches) == sum(groups.count(group) // 4 for group in set(groups))
    used = [index for batch in batches for index in batch]
    assert len(used) == len(set(used))
    assert batches == data.batches(4, torch.Generator().manual_seed(1))
    assert batches != data.batches(4, torch.Generator().manual_seed(2))
    assert len({groups[batch[0]] for batch in batches[:4]}) > 1  # groups take turns


def test_a_batch_is_two_lists(shapes: Path) -> None:
    data = objects(shapes)
    images, targets = data.collate_fn([data[0], data[1]])
    assert [tuple(image.shape) for image in images] == [(3, 96, 72), (3, 96, 96)]
    assert [len(target["boxes"]) for target in targets] == [len(data[0][1]["boxes"]), len(data[1][1]["boxes"])]


def test_packed_records_are_read_back() -> None:
    records = [{"name": "ä", "numbers": [1, 2.5]}, {}, {"nested": [(1, [2])]}]
    packed = PackedRecords(records)
    assert [packed[index] for index in range(len(packed))] == records


def broken_json(path: Path) -> None:
    path.write_text(path.read_text()[:100])


def a_list(path: Path) -> None:
    path.write_text("[]")


def captions(path: Path) -> None:
    path.write_text(json.dumps({"images": [], "annotations": []}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(Path.unlink, "no such file in the data set\n  where:   {path}\n  key:     data_dir", id="missing"),
        pytest.param(broken_json, "cannot read the annotations\n  where:   {path}\n  given:   Unterminated", id="torn"),
        pytest.param(a_list, "cannot read the annotations\n  where:   {path}\n  given:   'list'", id="a list"),
        pytest.param(
            captions,
            "the annotations lack some of their parts\n  where:   {path}\n  given:   categories",
            id="captions",
        ),
    ],
)
@pytest.mark.parametrize(
    "read",
    [objects, lambda folder: CocoImages("", str(folder / "annotations/instances_val2017.json"))],
    ids=["train", "eval"],
)
def test_annotations_that_cannot_be_used(
    shapes: Path, tmp_path: Path, damage: Callable[[Path], None], message: str, read: Callable[[Path], Any]
) -> None:
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.parent.mkdir()
    shutil.copy(shapes / "annotations" / "instances_val2017.json", path)
    damage(path)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(message.format(path=path))


BOX = [2, 3, 4, 5]
IMAGE = {"id": 0, "file_name": "0.jpg", "width": 20, "height": 20}
CLASSES = "1 to 3; 0 is the background"
NUMBER = "category_id: a whole number, 1 to 3"
SIDE = "pixels, a whole number above 0"
POLYGONS = "polygons of three or more points, or run lengths"


@pytest.mark.parametrize(
    ("changes", "problem", "given", "allowed"),
    [
        pytest.param({"category_id": 0}, "has the category of the background", "0", CLASSES, id="category 0"),
        pytest.param({"category_id": -1}, "has a negative category", "-1", CLASSES, id="negative"),
        pytest.param({"category_id": "1"}, "has no category", "1", NUMBER, id="text"),
        pytest.param({"category_id": 1.0}, "has no category", "1.0", NUMBER, id="no whole number"),
        pytest.param({"category_id": None}, "has no category", "nothing", NUMBER, id="none"),
        pytest.param(
            {"category_id": 2},
            "has a category that the file does not list",
            "2",
            "an id of `categories`",
            id="unlisted",
        ),
        pytest.param({"bbox": [1, 2, 3]}, "has no box", "[1, 2, 3]", "bbox: left, top, width, height", id="3 sides"),
        pytest.param(
            {"bbox": [1, 2, 3, float("nan")]},
            "has no box",
            "[1, 2, 3, nan]",
            "bbox: left, top, width, height",
            id="nan",
        ),
        pytest.param({"segmentation": []}, "has no segmentation", "[]", POLYGONS, id="empty segmentation"),
        pytest.param({"segmentation": [[1, 2, 3, 4]]}, "has no segmentation", "[[1, 2, 3, 4]]", POLYGONS, id="a line"),
        pytest.param({"segmentation": None}, "has no segmentation", "nothing", POLYGONS, id="no segmentation"),
    ],
)
@pytest.mark.parametrize("reads", ["train", "eval"])
def test_annotations_without_what_is_used(
    tmp_path: Path, changes: dict[str, Any], problem: str, given: str, allowed: str, reads: str
) -> None:
    """The annotation is named, with the image, and how many more there are. The evaluation has no highest category."""
    whole = annotation(BOX, id=4711, segmentation=[[2, 3, 6, 3, 6, 8]])
    file = tmp_path / "a.json"
    content = {"images": [IMAGE], "categories": [{"id": 1}], "annotations": [whole, {**whole, **changes}] * 2}
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError) as caught:
        if reads == "train":
            CocoObjects("", str(file), 4, [], masks=True, aspect_ratio_group_factor=3)
        else:
            CocoImages("", str(file), masks=True)
    assert str(caught.value) == (
        f"annotation 4711 of image 0.jpg {problem}; 1 more entries have such problems\n"
        f"  where:   {file}\n  given:   {given}\n"
        f"  allowed: {allowed if reads == 'train' else allowed.replace('1 to 3', '1 or more')}\n"
        "  do:      mend the file, or leave this entry out of it"
    )


@pytest.mark.parametrize(
    ("changes", "problem", "given", "allowed"),
    [
        pytest.param({"width": 0}, "image 0.jpg has no width", "0", SIDE, id="width 0"),
        pytest.param({"height": None}, "image 0.jpg has no height", "nothing", SIDE, id="no height"),
        pytest.param({"id": "x"}, "image 0.jpg has no number", "x", "id: a whole number", id="text as a number"),
        pytest.param({"id": 1}, "image 0.jpg has the number of another image", "1", "a number for each image", id="2"),
    ],
)
def test_images_without_what_is_used(
    tmp_path: Path, changes: dict[str, Any], problem: str, given: str, allowed: str
) -> None:
    file = tmp_path / "a.json"
    images = [{**IMAGE, "id": 1, "file_name": "1.jpg"}, {**IMAGE, **changes}]
    file.write_text(json.dumps({"images": images, "categories": [], "annotations": []}))
    with pytest.raises(ConfigError) as caught:
        CocoImages("", str(file))
    assert (caught.value.problem, str(caught.value.given), caught.value.allowed) == (problem, given, allowed)


def test_a_category_beyond_the_network(shapes: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        objects(shapes, num_classes=3)
    assert str(caught.value) == (
        "the annotations have a category beyond the classes of the network\n"
        f"  where:   {shapes}/annotations/instances_val2017.json\n"
        "  key:     num_classes\n"
        "  given:   3\n"
        "  allowed: at least 4: category 3, and the background"
    )


def test_a_sample_that_cannot_be_read_is_named(shapes: Path) -> None:
    """An error in the code of the data set, or in that of its transforms."""
    data = objects(shapes, transforms=[lambda *_: 1 / 0])
    batches = Loader(data, [(0, [0, 1]), (0, [2, 3])], 1, torch.device("cpu"))
    with pytest.raises(ConfigError) as caught:
        list(on_device(batches, lambda batch: batch, torch.device("cpu")))
    name = data.records[0]["file_name"]
    assert caught.value.problem == f"cannot read sample 0 ({name}) of cases.detection.data.CocoObjects"
    assert caught.value.given == "ZeroDivisionError: division by zero"
    assert caught.value.where.startswith(f"{__file__}:")


def test_a_missing_image_is_named(shapes: Path, tmp_path: Path) -> None:
    shutil.copytree(shapes, tmp_path / "copy")
    data = objects(tmp_path / "copy")
    missing = tmp_path / "copy" / "val2017" / data.records[2]["file_name"]
    missing.unlink()
    batches = Loader(data, [(0, [0, 1]), (0, [2, 3])], 1, torch.device("cpu"))
    with pytest.raises(ConfigError) as caught:
        list(on_device(batches, lambda batch: batch, torch.device("cpu")))
    assert str(caught.value).startswith(f"cannot read an image of the data set\n  where:   {missing}\n")
