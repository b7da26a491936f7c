"""Folders of images, for the frameworks without a reader of them: what is found, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.image_classification.folders import Labelled, labelled
from flagperf.errors import ConfigError

KINDS = (".jpg", ".png")


def filled(root: Path, *files: str) -> str:
    """The root, with these empty files."""
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return str(root)


def test_images_are_numbered_by_class_in_the_order_of_their_paths(tmp_path: Path) -> None:
    root = filled(tmp_path, "b/2.png", "a/x/1.JPG", "b/1.jpg", "b/notes.txt", "readme.txt")
    paths = [f"{root}/a/x/1.JPG", f"{root}/b/1.jpg", f"{root}/b/2.png"]
    assert labelled(root, 2, KINDS) == Labelled(["a", "b"], paths, [0, 1, 1])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param(
            (),
            "no images in this split of the data set\n  where:   {root}\n  key:     data_dir\n"
            "  allowed: <class>/<image file> below it, at least one image in each class\n"
            "  do:      there is no folder of a class",
            id="no class",
        ),
        pytest.param(
            ("a/1.jpg", "b/notes.txt"),
            "no images in this split of the data set\n  where:   {root}\n  key:     data_dir\n"
            "  allowed: <class>/<image file> below it, at least one image in each class\n"
            "  do:      no image in b",
            id="a class without images",
        ),
        pytest.param(
            ("a/1.jpg", "b/1.jpg", "c/1.jpg"),
            "the data set has more classes than the network\n  where:   {root}\n  key:     num_classes\n"
            "  given:   2\n  allowed: at least 3, one for each folder of the split",
            id="more classes than the network",
        ),
    ],
)
def test_other_folders_are_refused(files: tuple[str, ...], message: str, tmp_path: Path) -> None:
    root = filled(tmp_path, *files)
    with pytest.raises(ConfigError) as refused:
        labelled(root, 2, KINDS)
    assert str(refused.value) == message.format(root=root)
