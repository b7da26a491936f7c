"""Sample data of the detection cases: drawn shapes, as JPEG files and annotations in COCO's layout."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Tuple

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw

Point = Tuple[float, float]

CATEGORIES = {1: "square", 2: "triangle", 3: "disc"}  # number in the annotations → name
CORNERS = {1: 4, 2: 3, 3: 24}
EMPTY = 16  # of so many images, one has no annotation …
CROWDED = 8  # … and one has a crowd in its first place


def write_shapes(
    folder: str | Path,
    train_images: int,
    eval_images: int,
    image_size: int,
    cells: int,
    train_path: str,
    eval_path: str,
    train_annotations: str,
    eval_annotations: str,
) -> None:
    """Write two splits.

    Args:
        image_size: pixels of the longer side; the other has three quarters of it, or the same.
        cells: an image has cells x cells places, with one shape at most in each.
        train_path, eval_path: folders of the images below the folder.
        train_annotations, eval_annotations: files below the folder.
    """
    random = np.random.default_rng(0)
    for images, file, count in (
        (train_path, train_annotations, train_images),
        (eval_path, eval_annotations, eval_images),
    ):
        split = Split(random, Path(folder, images), image_size, cells)
        for number in range(1, count + 1):
            split.draw(number)
        split.write(Path(folder, file))


class Split:
    """Images of one split, and their objects."""

    def __init__(self, random: Generator, folder: Path, image_size: int, cells: int) -> None:
        self.random, self.folder, self.image_size, self.cells = random, folder, image_size, cells
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        folder.mkdir(parents=True)

    def draw(self, number: int) -> None:
        """Draw and save one image; wide, high and square ones take turns."""
        short = self.image_size * 3 // 4
        width, height = ((self.image_size, short), (short, self.image_size), (self.image_size,) * 2)[number % 3]
        noise = self.random.integers(0, 80, (height, width, 3), dtype=np.uint8)
        image = Image.fromarray(noise)
        if number % EMPTY:
            self._fill(number, image)
        name = f"{number:012d}.jpg"
        image.save(self.folder / name, quality=95)
        self.images.append({"id": number, "file_name": name, "width": width, "height": height})

    def _fill(self, number: int, image: Image.Image) -> None:
        """Draw shapes into some of the places."""
        places = [(x, y) for x in range(self.cells) for y in range(self.cells)]
        chosen = self.random.permutation(len(places))[: self.random.integers(1, len(places) + 1)]
        cell = np.array(image.size) / self.cells
        for index in chosen:
            corner = np.array(places[index]) * cell
            if number % CROWDED == 1 and index == chosen[0] and len(chosen) > 1:
                self._add_crowd(number, image, corner, cell)
            else:
                self._add_shape(number, image, corner, cell)

    def _add_shape(self, number: int, image: Image.Image, corner: Any, cell: Any) -> None:
        category = int(self.random.integers(1, len(CATEGORIES) + 1))
        radius = min(cell) * self.random.uniform(0.25, 0.45)
        center = corner + radius + self.random.random(2) * (cell - 2 * radius)
        polygon = _polygon(category, center, radius, self.random.uniform(0, 2 * math.pi))
        color = tuple(self.random.integers(120, 256, 3).tolist())
        ImageDraw.Draw(image).polygon(polygon, fill=color)
        points = np.round(np.array(polygon), 2)
        area = 0.5 * abs(np.sum(points[:, 0] * np.roll(points[:, 1], 1) - points[:, 1] * np.roll(points[:, 0], 1)))
        self._annotate(number, category, [points.ravel().tolist()], _box(points), float(area))

    def _add_crowd(self, number: int, image: Image.Image, corner: Any, cell: Any) -> None:
        """Many small discs that are one annotation, with run lengths in place of polygons."""
        mask = Image.new("1", image.size)
        for _ in range(8):
            center = corner + 4 + self.random.random(2) * (cell - 8)
            polygon = _polygon(3, center, 3, 0)
            for canvas, fill in ((image, (200, 200, 200)), (mask, 1)):
                ImageDraw.Draw(canvas).polygon(polygon, fill=fill)
        pixels = np.asarray(mask)
        ys, xs = np.nonzero(pixels)
        box = _box(np.stack([np.append(xs, xs.max() + 1), np.append(ys, ys.max() + 1)], axis=1))
        runs = {"counts": _runs(pixels), "size": list(pixels.shape)}
        self._annotate(number, 3, runs, box, float(pixels.sum()), iscrowd=1)

    def _annotate(
        self, number: int, category: int, segmentation: Any, box: list[float], area: float, iscrowd: int = 0
    ) -> None:
        self.annotations.append(
            {
                "id": len(self.annotations) + 1,
                "image_id": number,
                "category_id": category,
                "segmentation": segmentation,
                "bbox": box,
                "area": round(area, 2),
                "iscrowd": iscrowd,
            }
        )

    def write(self, path: Path) -> None:
        """Write the annotations."""
        categories = [{"id": number, "name": name, "supercategory": "shape"} for number, name in CATEGORIES.items()]
        content = {"images": self.images, "annotations": self.annotations, "categories": categories}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")


def _polygon(category: int, center: Any, radius: float, turn: float) -> list[Point]:
    """Corners of a regular polygon."""
    angles = turn + np.arange(CORNERS[category]) * 2 * math.pi / CORNERS[category]
    return [(float(center[0] + radius * math.cos(a)), float(center[1] + radius * math.sin(a))) for a in angles]


def _box(points: Any) -> list[float]:
    """Left, top, width and height."""
    low, high = points.min(axis=0), points.max(axis=0)
    return [round(float(value), 2) for value in (*low, *(high - low))]


def _runs(pixels: Any) -> list[int]:
    """Lengths of the runs of zeros and ones in turn, beginning with zeros, column by column."""
    flat = np.concatenate([[0], pixels.ravel(order="F").astype(np.int8)])
    changes = np.nonzero(np.diff(flat))[0]
    runs: list[int] = np.diff([0, *changes, pixels.size]).tolist()
    return runs
