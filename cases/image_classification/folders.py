"""Folders of images, one sub-folder a class, for frameworks without a reader of such folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cases.image_classification.refusals import no_images, too_many_classes


class Labelled(NamedTuple):
    """The images of a split in the order of their paths, and the numbers of their classes."""

    classes: list[str]
    paths: list[str]
    labels: list[int]


def labelled(root: str, num_classes: int, kinds: Sequence[str]) -> Labelled:
    """The images of a split.

    Args:
        root: the folder of the split.
        num_classes: of the network; the split has no more.
        kinds: ends of the names of images.

    Raises:
        ConfigError: a class has no image, or there are more classes.
    """
    classes = sorted(path.name for path in Path(root).glob("*") if path.is_dir())
    files = [image_files(Path(root, name), kinds) for name in classes]
    empty = [name for name, names in zip(classes, files) if not names]
    if not classes or empty:
        raise no_images(root, f"no image in {', '.join(empty[:5])}" if empty else "there is no folder of a class")
    if len(classes) > num_classes:
        raise too_many_classes(root, num_classes, len(classes))
    paths = [path for names in files for path in names]
    return Labelled(classes, paths, [label for label, names in enumerate(files) for _ in names])


def image_files(folder: Path, kinds: Sequence[str]) -> list[str]:
    """The images below a folder, sorted."""
    return sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in kinds)
