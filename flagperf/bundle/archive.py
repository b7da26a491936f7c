"""Writes and reads tar.zst files. The same files give the same bytes. A hostile archive does no harm."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import zstandard

from flagperf.contract.regular import beside, regular
from flagperf.errors import ConfigError

SUFFIX = ".tar.zst"
LEVEL = 10
LARGEST = 4 << 30  # bytes of all files, unpacked; a larger bundle is neither written nor read
MOST_FILES = 100_000
LONGEST_NAME = 1024  # characters
HEADER = 1 << 20  # bytes of the largest header of a tar member
WINDOW = 128 << 20  # bytes of memory that unpacking may use
CHUNK = 1 << 20
FRAME_HEADER = 18  # bytes, at most


class Archive:
    """A tar file during its writing. It keeps the order of its files, without times, owners and permissions."""

    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._size = 0

    def add(self, name: str, data: bytes) -> None:
        """Append one file. Raises ConfigError where all files together are larger than LARGEST."""
        self._size += len(data)
        check_size(name, self._size)
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(data), 0o644
        self._tar.addfile(member, io.BytesIO(data))

    def close(self) -> None:
        """Write the end of the tar file."""
        self._tar.close()


def check_size(name: str, size: int) -> None:
    """Raise ConfigError where so many bytes, up to the file of this name, are more than a bundle takes."""
    if size > LARGEST:
        raise ConfigError("the run is too large for a bundle", given=f"over {LARGEST >> 30} GiB at {name}")


@contextmanager
def create(path: Path) -> Iterator[Archive]:
    """Write an archive. `path` exists only after the block has ended without an exception."""
    with beside(path) as plain, beside(path) as packed:
        with plain.open("xb") as file:
            archive = Archive(file)
            yield archive
            archive.close()
        with plain.open("rb") as source, packed.open("xb") as target:
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            compressor.copy_stream(source, target, size=plain.stat().st_size)
        packed.replace(path)


def unpack(path: Path, folder: Path) -> Path:
    """Unpack an archive into an empty folder; returns the single folder at the top of the archive.

    Only plain files below `folder` are created, and at most LARGEST bytes.

    Raises:
        ConfigError: the file is no bundle, is damaged or cut off, or holds members that no bundle has.
    """
    plain = folder / "bundle.tar"
    try:
        _decompress(path, plain)
        with plain.open("rb", buffering=0) as file, tarfile.open(fileobj=_LimitedReader(file), mode="r:") as tar:
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
    """Write the tar file of a bundle. Its size must be the size that the header announces."""
    with regular(path).open("rb") as source:
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
    """The files of the archive. Refuses every other kind of member, and a file that appears twice."""
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
    """Whether a name is a relative path below one folder, as this module writes paths."""
    path = PurePosixPath(name)
    parts = len(path.parts) > 1 and not path.is_absolute() and not {"..", "."} & set(path.parts)
    return parts and str(path) == name and len(name) <= LONGEST_NAME and name.isprintable() and "\\" not in name


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, folder: Path) -> str:
    """Write one file; returns the folder at the top of its path."""
    target, source = folder / member.name, tar.extractfile(member)
    assert source is not None  # _members yields plain files only
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            shutil.copyfileobj(source, file)
    except (FileExistsError, NotADirectoryError):
        raise _refused(path, "a file in the place of a folder", member.name) from None
    return PurePosixPath(member.name).parts[0]


def _refused(path: Path, problem: str, given: str) -> ConfigError:
    return ConfigError(f"this is no bundle of flagperf: {problem}", where=str(path), given=given)


class _LimitedReader(io.BufferedReader):
    """A file that refuses to read more than HEADER bytes at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return super().read(size)
