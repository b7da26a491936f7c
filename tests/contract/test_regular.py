"""Files that several processes write at the same time: each writer succeeds, and a reader sees one whole file."""

from __future__ import annotations

import io
import multiprocessing
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from flagperf.bundle.archive import create, unpack
from flagperf.contract import made_here
from flagperf.contract.regular import write_atomically
from flagperf.kit import archive as kit
from flagperf.site.build import _replace

WRITES = 40
SIZE = 200_000


def text(path: Path, writer: str, _: Path) -> None:
    write_atomically(path, writer * SIZE)


def own_file(path: Path, writer: str, _: Path) -> None:
    with mock.patch.object(made_here, "_record_path", lambda: path.with_name("made") / "record"):
        made_here.write(path.parent, path, (writer * SIZE).encode())


def bundle(path: Path, writer: str, _: Path) -> None:
    with create(path) as archive:
        archive.add("run/file", (writer * SIZE).encode())


def of_kit(path: Path, writer: str, own: Path) -> None:
    (own / "file").write_text(writer * SIZE)
    kit.write(own, path, "run")


def folder(path: Path, writer: str, own: Path) -> None:
    new = own / "new"
    new.mkdir()
    (new / "file").write_text(writer * SIZE)
    _replace(new, path)


def in_text(path: Path, _: Path) -> str:
    return path.read_text()


def in_bundle(path: Path, own: Path) -> str:
    return (unpack(path, own) / "file").read_text()


def in_kit(path: Path, _: Path) -> str:
    with tarfile.open(path) as tar, tar.extractfile("run/file") or io.BytesIO() as file:
        return file.read().decode()


def in_folder(path: Path, _: Path) -> str:
    return (path / "file").read_text()


Write = Callable[[Path, str, Path], None]
Read = Callable[[Path, Path], str]


def write_often(write: Write, path: Path, writer: str, own: Path, start: str) -> None:
    while not Path(start).exists():
        pass
    for number in range(WRITES):
        (own / str(number)).mkdir()
        write(path, writer, own / str(number))


@pytest.mark.parametrize(
    ("write", "read"),
    [
        pytest.param(text, in_text, id="a report, or a JSON record"),
        pytest.param(own_file, in_text, id="the configuration of a round"),
        pytest.param(bundle, in_bundle, id="a bundle"),
        pytest.param(of_kit, in_kit, id="a kit"),
        pytest.param(folder, in_folder, id="a site"),
    ],
)
def test_two_writers(write: Write, read: Read, tmp_path: Path) -> None:
    target, start = tmp_path / "shared" / "file", tmp_path / "start"
    target.parent.mkdir()
    for writer in "ab":
        (tmp_path / writer).mkdir()
    fork = multiprocessing.get_context("fork")
    arguments = [(write, target, writer, tmp_path / writer, str(start)) for writer in "ab"]
    writers = [fork.Process(target=write_often, args=words) for words in arguments]
    for process in writers:
        process.start()
    start.touch()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0, 0]
    (tmp_path / "read").mkdir()
    assert read(target, tmp_path / "read") in ("a" * SIZE, "b" * SIZE)
    assert [path.name for path in target.parent.iterdir() if path.name != "made"] == ["file"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "file", "\ud800")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]
