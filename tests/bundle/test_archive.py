"""tar.zst files: equal files give equal bytes. A hostile file is refused and leaves nothing behind."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from flagperf.bundle import archive
from flagperf.errors import ConfigError

FILES = {"run/a.log": b"one\n", "run/job/b.json": b"{}", "run/" + "long" * 60 + "/c": b""}
NO_BUNDLE = "this is no bundle of flagperf: "


def write_bundle(path: Path) -> Path:
    with archive.create(path) as out:
        for name, data in FILES.items():
            out.add(name, data)
    return path


def archive_of(path: Path, *members: tarfile.TarInfo, data: bytes = b"x") -> Path:
    """An archive with these members, without the checks of flagperf."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(data))
    path.write_bytes(zstandard.compress(file.getvalue()))
    return path


def a_file(name: str) -> tarfile.TarInfo:
    return tarfile.TarInfo(name)


def a_link(kind: bytes) -> tarfile.TarInfo:
    link = tarfile.TarInfo("run/link")
    link.type, link.linkname = kind, "/etc/passwd"
    return link


def a_long_header() -> tarfile.TarInfo:
    member = tarfile.TarInfo("run/a")
    member.pax_headers = {"comment": "x" * (2 * archive.HEADER)}
    return member


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = write_bundle(tmp_path / "one.tar.zst"), write_bundle(tmp_path / "two.tar.zst")
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.tar.zst", "two.tar.zst"]


def test_unpacking_gives_the_same_files(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "one.tar.zst")
    folder = tmp_path / "out"
    folder.mkdir()
    assert archive.unpack(path, folder) == folder / "run"
    unpacked = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert unpacked == FILES


def test_an_unpacked_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    (folder := tmp_path / "out").mkdir()
    member = a_file("run/setuid")
    member.mode = 0o6777
    archive.unpack(archive_of(tmp_path / "one.tar.zst", member), folder)
    (tmp_path / "plain").touch()
    assert (folder / "run/setuid").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), archive.create(tmp_path / "one.tar.zst") as out:
        out.add("run/a", b"x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


MEMBERS: dict[str, tuple[list[tarfile.TarInfo], str, str]] = {
    "a path upwards": ([a_file("run/../../up")], "a name that leads elsewhere", "run/../../up"),
    "a path from the root": ([a_file("/tmp/run/a")], "a name that leads elsewhere", "/tmp/run/a"),
    "no folder": ([a_file("run")], "a name that leads elsewhere", "run"),
    "a path that is not plain": ([a_file("run//a")], "a name that leads elsewhere", "run//a"),
    "a name that steers": ([a_file("run/\x1b[2J")], "a name that leads elsewhere", "run/\\x1b[2J"),
    "a symbolic link": ([a_link(tarfile.SYMTYPE)], "a link or a device, not a plain file", "run/link"),
    "a hard link": ([a_link(tarfile.LNKTYPE)], "a link or a device, not a plain file", "run/link"),
    "a device": ([a_link(tarfile.CHRTYPE)], "a link or a device, not a plain file", "run/link"),
    "a folder": ([a_link(tarfile.DIRTYPE)], "a link or a device, not a plain file", "run/link"),
    "twice": ([a_file("run/a"), a_file("run/a")], "a file twice", "run/a"),
    "a file as a folder": ([a_file("run/a"), a_file("run/a/b")], "a file in the place of a folder", "run/a/b"),
    "a folder as a file": ([a_file("run/a/b"), a_file("run/a")], "a file in the place of a folder", "run/a"),
    "two runs": ([a_file("run/a"), a_file("two/a")], "not one folder", "run, two"),
    "nothing": ([], "not one folder", "nothing"),
}


@pytest.mark.parametrize(("members", "problem", "given"), MEMBERS.values(), ids=MEMBERS)
def test_a_hostile_archive_is_refused(tmp_path: Path, members: list[tarfile.TarInfo], problem: str, given: str) -> None:
    path, folder = archive_of(tmp_path / "bad.tar.zst", *members), tmp_path / "deep" / "out"
    folder.mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        archive.unpack(path, folder)
    assert str(caught.value) == f"{NO_BUNDLE}{problem}\n  where:   {path}\n  given:   {given}"
    outside = [item for item in tmp_path.rglob("*") if item.is_file() and folder not in item.parents]
    assert (outside, list(folder.rglob("bundle.tar"))) == ([path], [])


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def of_unknown_size(_: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(b"x" * 4096) + compressor.flush()


def of_many_bytes(_: bytes) -> bytes:
    """A few bytes whose header announces 8 GiB."""
    return b"\x28\xb5\x2f\xfd" + bytes([0b11000000, 0x50]) + (8 << 30).to_bytes(8, "little")


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no zstd": (
        lambda _: b"PK\x03\x04 and so on",
        "not a bundle of flagperf\n  where:   {}\n  allowed: a file .tar.zst",
    ),
    "empty": (lambda _: b"", "not a bundle of flagperf\n  where:   {}\n  allowed: a file .tar.zst"),
    "no tar": (
        lambda _: zstandard.compress(b"text " * 999),
        "this bundle is damaged\n  where:   {}\n  given:   invalid header",
    ),
    "more behind it": (
        lambda data: data + b"more",
        "this bundle is damaged\n  where:   {}\n  given:   zstd decompress error: Unknown frame descriptor",
    ),
    "a second frame": (
        lambda data: data + zstandard.compress(b"more"),
        f"{NO_BUNDLE}more follows its end\n  where:   {{}}\n  given:   10240 bytes were announced",
    ),
    "size not given": (
        of_unknown_size,
        f"{NO_BUNDLE}its size is not given, or too large\n  where:   {{}}\n  given:   {{size}}",
    ),
    "too large": (
        of_many_bytes,
        f"{NO_BUNDLE}its size is not given, or too large\n  where:   {{}}\n  given:   8589934592",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_gets_one_message(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    path = write_bundle(tmp_path / "one.tar.zst")
    path.write_bytes(damage(path.read_bytes()))
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError) as caught:
        archive.unpack(path, tmp_path / "out")
    assert str(caught.value) == message.format(path, size=zstandard.CONTENTSIZE_UNKNOWN)


def test_a_pipe_is_no_bundle(tmp_path: Path) -> None:
    """Nobody may write into it."""
    os.mkfifo(path := tmp_path / "one.tar.zst")
    with pytest.raises(ConfigError) as caught:
        archive.unpack(path, tmp_path)
    assert str(caught.value) == f"this bundle cannot be read\n  where:   {path}\n  given:   not a regular file"


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "one.tar.zst"
    with archive.create(path) as out:
        out.add("run/a", bytes(range(256)) * 4096)
        out.add("run/b", bytes(reversed(range(256))) * 4096)
    data = path.read_bytes()
    (tmp_path / "out").mkdir()
    for end in range(20, len(data), len(data) // 7):
        path.write_bytes(data[:end])
        with pytest.raises(ConfigError, match="this bundle is cut off"):
            archive.unpack(path, tmp_path / "out")


def test_the_memory_of_a_header_is_limited(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "bad.tar.zst", a_long_header())
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match=r"this bundle is damaged\n.*\n  given:   a header of [0-9]+ bytes"):
        archive.unpack(path, tmp_path / "out")
