"""The fingerprint of the data's files: it changes with names and sizes, not with the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flagperf.contract.data_files import QUICK, data_fingerprint, split, spread

IMAGES = {"train/*/*": 1, "val/*/*": 1, "notes/labels.txt": 1}


def write(folder: Path, *names: str, text: str = "pixels") -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def images(folder: Path, train: str = "train") -> Path:
    return write(folder, f"{train}/cat/1.jpg", f"{train}/dog/2.jpg", "val/cat/3.jpg", "notes/labels.txt")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file more": lambda folder: write(folder, "train/cat/4.jpg"),
    "a file less": lambda folder: (folder / "train/dog/2.jpg").unlink(),
    "another name": lambda folder: (folder / "train/dog/2.jpg").rename(folder / "train/dog/5.jpg"),
    "another class": lambda folder: (folder / "train/dog/2.jpg").rename(folder / "train/cat/2.jpg"),
    "another split": lambda folder: (folder / "train/cat/1.jpg").rename(folder / "val/cat/1.jpg"),
    "another size": lambda folder: write(folder, "val/cat/3.jpg", text="more pixels"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_names_and_sizes_count(change: Callable[[Path], object], tmp_path: Path) -> None:
    config = {"data_dir": str(images(tmp_path)), "data": {"require": IMAGES}}
    before = data_fingerprint(config)
    change(tmp_path)
    after = data_fingerprint(config)
    assert before and after and before.digest != after.digest


def test_the_place_does_not_count(tmp_path: Path) -> None:
    here = {"data_dir": str(images(tmp_path / "here")), "data": {"require": IMAGES}}
    moved = {pattern.replace("train", "images"): least for pattern, least in IMAGES.items()}
    there = {"data_dir": str(images(tmp_path / "there", "images")), "data": {"require": moved}}
    found = data_fingerprint(here)
    assert found is not None
    assert (found.files, len(found.digest)) == (4, 16)
    assert data_fingerprint(there) == found


def test_a_quick_scan_lists_some_of_the_folders(tmp_path: Path) -> None:
    """Of 64 folders every second is listed, in the order of their names, wherever the files lie."""
    config = {"data_dir": str(tmp_path), "data": {"require": {"train/*/*": 1}}}
    write(tmp_path, *(f"train/{number:02}/{name}.jpg" for number in reversed(range(64)) for name in "ab"))
    before = data_fingerprint(config, QUICK)
    assert before is not None and before.files == 64
    write(tmp_path, "train/01/c.jpg")
    assert data_fingerprint(config, QUICK) == before
    write(tmp_path, "train/02/c.jpg")
    assert data_fingerprint(config, QUICK) != before


def test_links_that_lead_nowhere_count_by_name(tmp_path: Path) -> None:
    (images(tmp_path) / "train/cat/gone.jpg").symlink_to("nowhere")
    found = data_fingerprint({"data_dir": str(tmp_path), "data": {"require": IMAGES}})
    assert found is not None and found.files == 5


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"data_dir": None, "data": {"require": IMAGES}}, id="no folder"),
        pytest.param({"data_dir": "/nowhere", "data": {"require": IMAGES}}, id="no such folder"),
        pytest.param({"data_dir": "/tmp", "data": {}}, id="nothing required"),
        pytest.param({"data_dir": "/tmp"}, id="no data"),
    ],
)
def test_no_fingerprint(config: dict[str, object]) -> None:
    assert data_fingerprint(config) is None


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        pytest.param("train/*/*", ("train", ("*", "*")), id="folders"),
        pytest.param("*/*/*.flac", (".", ("*", "*", "*.flac")), id="from the first part on"),
        pytest.param("notes/labels.txt", ("notes", ("labels.txt",)), id="a file"),
        pytest.param("train.en.*", (".", ("train.en.*",)), id="files"),
    ],
)
def test_split(pattern: str, parts: tuple[str, tuple[str, ...]]) -> None:
    assert split(pattern) == parts


@pytest.mark.parametrize(
    ("count", "chosen"),
    [(0, []), (3, [0, 1, 2]), (4, [0, 2]), (7, [0, 3, 6]), (9, [0, 3, 6])],
)
def test_spread(count: int, chosen: list[int]) -> None:
    assert list(spread(range(count), 3)) == chosen
