"""Writes a folder as one tar.zst file, without times, owners and permissions: the same files give the same bytes."""

from __future__ import annotations

import tarfile
from pathlib import Path

import zstandard

from flagperf.contract.regular import beside
from flagperf.errors import ConfigError

SUFFIXES = (".tar.zst", ".tar")  # the second for machines without zstd
LEVEL = 3  # most of a kit is compressed already


def write(folder: Path, target: Path, top: str) -> None:
    """Write all files of a folder below the folder `top` of the archive. Files are streamed: they may be large.

    `target` exists only when it is complete.
    """
    try:
        with beside(target) as partial:
            with partial.open("xb") as file:
                if target.name.endswith(SUFFIXES[0]):
                    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
                    with compressor.stream_writer(file, closefd=False) as packed:
                        _tar(folder, packed, top)
                else:
                    _tar(folder, file, top)
            partial.replace(target)
    except OSError as error:
        problem = f"the kit cannot be written: {error.strerror or error}"
        raise ConfigError(problem, key="into", given=error.filename or target) from None


def _tar(folder: Path, file: object, top: str) -> None:
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"{top}/{path.relative_to(folder).as_posix()}")
            member.size, member.mode = path.stat().st_size, 0o755 if path.suffix == ".sh" else 0o644
            with path.open("rb") as content:
                tar.addfile(member, content)
