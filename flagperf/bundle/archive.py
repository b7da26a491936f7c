"""tar.zst: written so that the same files give the same bytes, read so that a hostile one can do no harm."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import zstandard

from flagperf.errors import ConfigError

SUFFIX = ".tar.zst"
LEVEL = 10
LARGEST = 4 << 30  # bytes of all files, unpacked; neither made nor read beyond
MOST_FILES = 100_000
LONGEST_NAME = 1024  # characters
HEADER = 1 << 20  # bytes that a header of the tar may ask for at once
WINDOW = 128 << 20  # bytes of memory that the file may ask for to be unpacked
CHUNK = 1 << 20
FRAME_HEADER = 18  # bytes, at most


class Archive:
    """A tar file that is being written: its files in the order they come, without times, owners and rights."""

    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._size = 0

    def add(self, name: str, data: bytes) -> None:
        """Raises ConfigError where all files together are larger than what can be read back."""
        self._size += len(data)
        if self._size > LARGEST:
            raise ConfigError("the run is too large for a bundle", given=f"over {LARGEST >> 30} GiB at {name}")
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(data), 0o644
        self._tar.addfile(member, io.BytesIO(data))

    def close(self) -> None:
        self._tar.close()


@contextmanager
def writing(path: Path) -> Iterator[Archive]:
    """Write an archive to `path`, which is there when the block has ended well, and not before."""
    plain, packed = (path.with_name(f".{path.name}.{part}") for part in ("tar", "partial"))
    try:
        with plain.open("wb") as file:
            archive = Archive(file)
            yield archive
            archive.close()
        with plain.open("rb") as source, packed.open("wb") as target:
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            compressor.copy_stream(source, target, size=plain.stat().st_size)
        packed.replace(path)
    finally:
        plain.unlink(missing_ok=True)
        packed.unlink(missing_ok=True)


def unpack(path: Path, folder: Path) -> Path:
    """Unpack an archive into an empty folder; returns the one folder that it holds.

    Only plain files are made, all of them below `folder`, and no more than LARGEST bytes.

    Raises:
        ConfigError: it is no bundle, it is damaged or cut off, or it holds what no bundle has.
    """
    plain = folder / "bundle.tar"
    try:
        _decompress(path, plain)
        with plain.open("rb", buffering=0) as file, tarfile.open(fileobj=_Modest(file), mode="r:") as tar:
            tops = {_extract(tar, member, path, folder) for member in _members(tar, path)}
    except (tarfile.TarError, zstandard.ZstdError, UnicodeError) as error:
        raise ConfigError("this bundle is damaged", where=str(path), given=str(error)) from None
    except OSError as error:
        raise ConfigError("this bundle cannot be read", where=str(path), given=error.strerror or str(error)) from None
    finally:
        plain.unlink(missing_ok=True)
    if len(tops) != 1:
        raise _refused(path, "not one folder", ", ".join(sorted(tops)[:3]) or "nothing")
    return folder / tops.pop()


def _decompress(path: Path, target: Path) -> None:
    """The tar file of a bundle, of exactly the size that the bundle gives for it."""
    with path.open("rb") as source:
        try:
            frame = zstandard.get_frame_parameters(source.read(FRAME_HEADER))
        except zstandard.ZstdError:
            raise ConfigError("not a bundle of flagperf", where=str(path), allowed=f"a file {SUFFIX}") from None
        size = frame.content_size
        if not 0 < size <= LARGEST + MOST_FILES * 4 * tarfile.BLOCKSIZE:
            raise _refused(path, "its size is not given, or too large", str(size))
        source.seek(0)
        decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW)
        written = 0
        with target.open("wb") as file, decompressor.stream_reader(source, read_across_frames=True) as reader:
            while (data := reader.read(CHUNK)) and written <= size:
                written += file.write(data)
    if written < size:
        given = f"{written} of {size} bytes"
        raise ConfigError("this bundle is cut off", where=str(path), given=given, advice="fetch it again")
    if written > size:
        raise _refused(path, "more follows its end", f"{size} bytes were announced")


def _members(tar: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """The files in it, if there is nothing else and none is twice there."""
    names: set[str] = set()
    size = 0
    for member in tar:
        size += member.size
        if not member.isreg() or member.issparse():
            raise _refused(path, "a link or a device, not a plain file", member.name)
        if not _is_harmless(member.name):
            raise _refused(path, "a name that leads elsewhere", member.name)
        if member.name in names:
            raise _refused(path, "a file twice", member.name)
        if size > LARGEST or len(names) >= MOST_FILES:
            raise _refused(path, f"more than {MOST_FILES} files or {LARGEST >> 30} GiB", member.name)
        names.add(member.name)
        yield member


def _is_harmless(name: str) -> bool:
    """A relative path below one folder, as this module writes it."""
    path = PurePosixPath(name)
    parts = len(path.parts) > 1 and not path.is_absolute() and not {"..", "."} & set(path.parts)
    return parts and str(path) == name and len(name) <= LONGEST_NAME and name.isprintable() and "\\" not in name


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, folder: Path) -> str:
    """Write one file; returns the folder at the top of its path."""
    target, source = folder / member.name, tar.extractfile(member)
    assert source is not None  # it is a plain file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            shutil.copyfileobj(source, file)
    except (FileExistsError, NotADirectoryError):
        raise _refused(path, "a file in the place of a folder", member.name) from None
    return PurePosixPath(member.name).parts[0]


def _refused(path: Path, problem: str, given: str) -> ConfigError:
    return ConfigError(f"this is no bundle of flagperf: {problem}", where=str(path), given=given)


class _Modest(io.BufferedReader):
    """A file that gives a header no more memory than one needs."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return super().read(size)
