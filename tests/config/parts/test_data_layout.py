"""A data folder is looked at before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.config.parts.data_layout import check_layout, sample_folder
from flagperf.errors import ConfigError

DATA = {
    "name": "Pictures",
    "tree": "<data_dir>/\n├── train/<class>/*.JPEG\n└── val/<class>/*.JPEG\n",
    "require": {"train/*/*": 2, "val/*/*": 1},
}
TREE = "Pictures, laid out as\n    <data_dir>/\n    ├── train/<class>/*.JPEG\n    └── val/<class>/*.JPEG"


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def test_a_right_folder(tmp_path: Path) -> None:
    check_layout(DATA, fill(tmp_path, "train/a/1.JPEG", "train/b/2.JPEG", "val/a/1.JPEG"))


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        pytest.param([], "data_dir has 0 of at least 2 entries that match train/*/*", id="empty"),
        pytest.param(["1.JPEG", "2.JPEG"], "data_dir has 0 of at least 2 entries that match train/*/*", id="flat"),
        pytest.param(["train/a/1", "val/a/1"], "data_dir has 1 of at least 2 entries that match train/*/*", id="few"),
        pytest.param(
            ["train/a/1", "train/a/2"], "data_dir has 0 of at least 1 entries that match val/*/*", id="no val"
        ),
    ],
)
def test_a_wrong_layout_shows_the_tree(tmp_path: Path, names: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_layout(DATA, fill(tmp_path, *names))
    assert str(caught.value) == (
        f"{problem}\n  where:   command line\n  key:     data_dir\n  given:   {tmp_path}\n  allowed: {TREE}"
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("missing", "data_dir does not exist", id="missing"),
        pytest.param("file", "data_dir is not a folder", id="a file"),
    ],
)
def test_no_folder(tmp_path: Path, name: str, problem: str) -> None:
    folder = fill(tmp_path, "file") / name
    with pytest.raises(ConfigError) as caught:
        check_layout(DATA, folder)
    assert str(caught.value) == (
        f"{problem}\n  where:   command line\n  key:     data_dir\n  given:   {folder}\n  allowed: {TREE}"
    )


def test_sample_folder_follows_what_the_writer_is_asked_for(tmp_path: Path) -> None:
    ask = {"_target_": "cases.toy.write", "count": 10}
    folder = sample_folder(str(tmp_path), "toy", ask)
    assert folder.parent == tmp_path
    assert folder == sample_folder(str(tmp_path), "toy", dict(reversed(ask.items())))
    assert folder != sample_folder(str(tmp_path), "toy", {**ask, "count": 11})
    assert sample_folder("~/samples", "toy", ask).parent == Path.home() / "samples"
