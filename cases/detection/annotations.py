"""COCO's annotations: one JSON file a split, with images, categories, and the objects of each image."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError

ADVICE = "mend the file, or leave this entry out of it"
NUMBERS = {int, float}
LISTS = ("images", "annotations", "categories")


def read_annotations(path: str, masks: bool, num_classes: int | None = None) -> dict[str, Any]:
    """Content of a file such as instances_train2017.json.

    Args:
        masks: whether the masks of objects are used, too.
        num_classes: classes of the network, the background included; None: the network does not learn from this file.

    Raises:
        ConfigError: the file cannot be read, or lacks something that is used.
    """
    try:
        content = json.loads(Path(path).read_bytes())
        missing = [name for name in LISTS if not isinstance(content.get(name), list)]
    except FileNotFoundError:
        raise ConfigError("no such file in the data set", where=path, key="data_dir") from None
    except (ValueError, AttributeError) as error:
        raise ConfigError(
            "cannot read the annotations",
            where=path,
            given=str(error),
            allowed="a JSON file of COCO's instances",
            advice="unpack the archive of the annotations again, or fetch it again",
        ) from None
    if missing:
        raise ConfigError("the annotations lack some of their parts", where=path, given=", ".join(missing))
    problems = _problems(content, masks, num_classes)
    if first := next(problems, None):
        problem, given, allowed = first
        more = sum(1 for _ in problems)
        problem += f"; {more} more entries have such problems" if more else ""
        given = "nothing" if given is None else given
        raise ConfigError(problem, where=path, given=given, allowed=allowed, advice=ADVICE)
    _check_classes(content["annotations"], num_classes, path)
    return content  # type: ignore[no-any-return]


def is_object(annotation: Mapping[str, Any]) -> bool:
    """Whether an annotation is one object: crowds are no objects, as in the original recipe."""
    return not annotation.get("iscrowd", 0)


# ---------------------------------------------------------------- what an entry lacks


def _problems(content: Mapping[str, Any], masks: bool, num_classes: int | None) -> Iterator[tuple[str, Any, str]]:
    """The first problem of each entry of the file."""
    names: dict[Any, str] = {}
    for place, image in enumerate(content["images"]):
        problem = _of_image(image)
        if problem is None and image["id"] in names:
            problem = "has the number of another image", image["id"], "a number for each image"
        if problem is None:
            names[image["id"]] = image["file_name"]
        else:
            said, given, allowed = problem
            yield f"{_name(image, 'file_name', f'entry {place} of images')} {said}", given, allowed
    listed = (category.get("id") for category in content["categories"] if isinstance(category, dict))
    categories = set(filter(_is_whole, listed))
    last = "" if num_classes is None else f" to {num_classes - 1}"
    for place, annotation in enumerate(content["annotations"]):
        problem = _of_annotation(annotation, categories, last)
        if problem is None and masks and (num_classes is None or is_object(annotation)):
            problem = _of_mask(annotation.get("segmentation"))
        if problem is not None:
            said, given, allowed = problem
            name = _name(annotation, "id", f"entry {place} of annotations", "annotation ")
            number = annotation.get("image_id") if isinstance(annotation, dict) else None
            image = names.get(number) if _is_whole(number) else None
            yield f"{name}{f' of image {image}' if image else ''} {said}", given, allowed


def _name(entry: Any, key: str, otherwise: str, kind: str = "image ") -> str:
    return f"{kind}{entry[key]}" if isinstance(entry, dict) and key in entry else otherwise


def _of_image(image: Any) -> tuple[str, Any, str] | None:
    if not isinstance(image, dict) or not isinstance(image.get("file_name"), str):
        return "has no file_name", image, "the name of a file"
    if not _is_whole(image.get("id")):
        return "has no number", image.get("id"), "id: a whole number"
    for side in ("width", "height"):
        if not (_is_whole(image.get(side)) and image[side] > 0):
            return f"has no {side}", image.get(side), "pixels, a whole number above 0"
    return None


def _of_annotation(annotation: Any, categories: Iterable[Any], last: str) -> tuple[str, Any, str] | None:
    if not isinstance(annotation, dict) or not _is_whole(annotation.get("image_id")):
        return "has no image", annotation, "image_id: the number of an image"
    category = annotation.get("category_id")
    if not _is_whole(category):
        return "has no category", category, f"category_id: a whole number, 1{last or ' or more'}"
    if category < 1:
        said = "has the category of the background" if category == 0 else "has a negative category"
        return said, category, f"1{last or ' or more'}; 0 is the background"
    if category not in categories:
        return "has a category that the file does not list", category, "an id of `categories`"
    if not _are_numbers(annotation.get("bbox"), 4):
        return "has no box", annotation.get("bbox"), "bbox: left, top, width, height"
    return None


def _of_mask(segmentation: Any) -> tuple[str, Any, str] | None:
    """Polygons, each a list x, y, x, y …, or run lengths."""
    if isinstance(segmentation, dict):
        is_mask = _are_numbers(segmentation.get("size"), 2) and isinstance(segmentation.get("counts"), (str, list))
    else:
        is_mask = isinstance(segmentation, list) and segmentation != [] and all(map(_is_polygon, segmentation))
    return (
        None if is_mask else ("has no segmentation", segmentation, "polygons of three or more points, or run lengths")
    )


def _is_polygon(points: Any) -> bool:
    is_long = isinstance(points, list) and len(points) >= 6 and len(points) % 2 == 0
    return is_long and NUMBERS.issuperset(map(type, points))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_numbers(values: Any, count: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == count
        and NUMBERS.issuperset(map(type, values))
        and all(map(isfinite, values))
    )


def _check_classes(annotations: Sequence[Mapping[str, Any]], num_classes: int | None, path: str) -> None:
    highest = max((annotation["category_id"] for annotation in annotations), default=0)
    if num_classes is not None and highest >= num_classes:
        raise ConfigError(
            "the annotations have a category beyond the classes of the network",
            where=path,
            key="num_classes",
            given=num_classes,
            allowed=f"at least {highest + 1}: category {highest}, and the background",
        )
