"""Training and evaluation data are disjoint: real links and copies are found, honest data is left alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flagperf.contract.splits import check_disjoint
from flagperf.errors import ConfigError
from flagperf.run.copies import check_copies

Make = Callable[[Path], object]
PATHS = {"train_path": "train", "eval_path": "val", "train_batch_size": 8, "eval_batch_size": 8}


def images(folder: Path, split: str, content: str = "") -> None:
    """Twelve files in two classes; `content` decides whether two splits have equal files."""
    for number in range(12):
        path = folder / split / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content or split} {number}")


def linked(folder: Path, link: Callable[[Path, Path], object]) -> None:
    """A split val, and train, whose files are links to those of val under other names."""
    images(folder, "val")
    for path in list((folder / "val").glob("*/*")):
        to = folder / "train" / path.parent.name / f"new{path.name}"
        to.parent.mkdir(parents=True, exist_ok=True)
        link(path, to)


def both_linked(folder: Path) -> None:
    """Both splits are links to files that lie elsewhere."""
    images(folder, "store")
    for split in ("train", "val"):
        (folder / split).mkdir()
        (folder / split / "cat").symlink_to(folder / "store" / "cat")


SHARED: dict[str, tuple[Make, dict[str, str], str]] = {
    "one path": (lambda f: images(f, "val"), {"train_path": "val"}, "{f}/val and {f}/val are the same"),
    "one path, written otherwise": (
        lambda f: images(f, "val"),
        {"train_path": "val/../val"},
        "{f}/val/../val and {f}/val are the same",
    ),
    "a link to the folder": (
        lambda f: (images(f, "val"), (f / "train").symlink_to("val")),
        {},
        "{f}/train and {f}/val are the same",
    ),
    "one in the other": (lambda f: images(f, "val"), {"train_path": "val/cat"}, "{f}/val/cat lies in {f}/val"),
    "the other in one": (
        lambda f: images(f, "all/val"),
        {"train_path": "all", "eval_path": "all/val"},
        "{f}/all/val lies in {f}/all",
    ),
    "links to the files": (
        lambda f: linked(f, lambda path, to: to.symlink_to(path)),
        {},
        "{f}/train/cat/new0.jpg and {f}/val/cat/0.jpg are the same file",
    ),
    "hard links": (
        lambda f: linked(f, os.link),
        {},
        "{f}/train/cat/new0.jpg and {f}/val/cat/0.jpg are the same file",
    ),
    "links to a third place": (both_linked, {}, "{f}/train/cat/0.jpg and {f}/val/cat/0.jpg are the same file"),
    "one file": (
        lambda f: (f / "train.txt").write_text("a"),
        {"train_path": "train.txt", "eval_path": "train.txt"},
        "{f}/train.txt and {f}/train.txt are the same",
    ),
    "a hard link to the file": (
        lambda f: ((f / "train").write_text("a"), os.link(f / "train", f / "val")),
        {},
        "{f}/train and {f}/val are the same",
    ),
}


def refused(keys: str, given: str) -> str:
    return (
        "training and evaluation use the same data\n  where:   config.yaml\n"
        f"  key:     {keys}\n  given:   {given}\n  allowed: paths to different data\n"
        "  do:      a metric on the training data has no meaning: give each split its own data"
    )


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "thorough"])
@pytest.mark.parametrize(("make", "paths", "given"), SHARED.values(), ids=SHARED.keys())
def test_the_same_files_are_refused(make: Make, paths: dict[str, str], given: str, quick: bool, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ConfigError) as error:
        check_disjoint({**PATHS, **paths}, tmp_path, quick=quick)
    assert str(error.value) == refused("train_path, eval_path", given.format(f=tmp_path))


def test_further_pairs_of_paths(tmp_path: Path) -> None:
    images(tmp_path, "train")
    images(tmp_path, "val")
    (tmp_path / "val.json").write_text("{}")
    with pytest.raises(ConfigError) as error:
        check_disjoint({**PATHS, "train_annotations": "val.json", "eval_annotations": "val.json"}, tmp_path)
    given = f"{tmp_path}/val.json and {tmp_path}/val.json are the same"
    assert str(error.value) == refused("train_annotations, eval_annotations", given)


COPIES: dict[str, tuple[Make, str]] = {
    "files under other names": (
        lambda f: (
            images(f, "val"),
            shutil.copytree(f / "val", f / "train"),
            (f / "train/cat").rename(f / "train/owl"),
        ),
        "12 of 12 evaluation files are in the training data, such as {f}/val/cat/0.jpg, a copy of {f}/train/owl/0.jpg",
    ),
    "among many others": (
        lambda f: (images(f, "val"), images(f, "train"), shutil.copytree(f / "val/cat", f / "train/owl")),
        "6 of 12 evaluation files are in the training data, such as {f}/val/cat/0.jpg, a copy of {f}/train/owl/0.jpg",
    ),
    "a file": (
        lambda f: [(f / name).write_bytes(b"\xff\x00") for name in ("train", "val")],
        "1 of 1 evaluation files are in the training data, such as {f}/val, a copy of {f}/train",
    ),
    "lines of a text": (
        lambda f: ((f / "train").write_text("a\nb\nc\nd\n"), (f / "val").write_text("c\nx\n")),
        "1 of 2 evaluation lines are in the training data, such as c",
    ),
}


@pytest.mark.parametrize(("make", "given"), COPIES.values(), ids=COPIES.keys())
def test_copies_are_refused(make: Make, given: str, tmp_path: Path) -> None:
    make(tmp_path)
    check_disjoint(PATHS, tmp_path, quick=False)  # no links
    with pytest.raises(ConfigError) as error:
        check_copies(PATHS, tmp_path)
    assert str(error.value) == refused("train_path, eval_path", given.format(f=tmp_path))


def one_in_twelve(folder: Path) -> None:
    images(folder, "train")
    images(folder, "val")
    shutil.copy(folder / "train/cat/0.jpg", folder / "val/cat/0.jpg")


HONEST: dict[str, tuple[Make, dict[str, str]]] = {
    "folders": (lambda f: (images(f, "train"), images(f, "val")), {}),
    "one sample twice": (one_in_twelve, {}),
    "no such paths": (lambda f: None, {}),  # noqa: ARG005
    "texts that are no paths": (lambda f: None, {"train_mode": "all", "eval_mode": "all"}),  # noqa: ARG005
    "a link that leads nowhere": (
        lambda f: (images(f, "train"), images(f, "val"), (f / "val/cat/new.jpg").symlink_to("gone")),
        {},
    ),
    "texts": (lambda f: ((f / "train").write_text("a\nb\n"), (f / "val").write_text("c\n")), {}),
}


@pytest.mark.parametrize(("make", "paths"), HONEST.values(), ids=HONEST.keys())
def test_honest_data(make: Make, paths: dict[str, str], tmp_path: Path) -> None:
    make(tmp_path)
    check_disjoint({**PATHS, **paths}, tmp_path)
    check_disjoint({**PATHS, **paths}, tmp_path, quick=False)
    check_copies({**PATHS, **paths}, tmp_path)
