"""The files of a training's data, by names and sizes: a fingerprint that tells two copies of the data apart.

A million files are listed in seconds, so a rank does it when its training is over, and only one rank of each node.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

SIZED = 10_000  # files at most whose size is asked for, evenly spread: over a network each may take a millisecond
WILD = re.compile(r"[*?\[]")

T = TypeVar("T")


class Fingerprint(NamedTuple):
    """Of the files of a data set."""

    files: int
    digest: str  # of their names and sizes, 16 hexadecimal digits


def data_fingerprint(config: Mapping[str, Any]) -> Fingerprint | None:
    """The fingerprint of the files that the case requires (`data.require`); None where it requires none.

    It is the same wherever the files lie: what stands before a glob's first wildcard is no part of their names.
    """
    folder, digest, files = config["data_dir"], hashlib.sha256(), 0
    for pattern in (config.get("data") or {}).get("require", ()) if folder else ():
        fixed, wild = split(pattern)
        names = sorted(_matches(os.path.join(folder, fixed), wild))  # noqa: PTH118
        digest.update("\n".join([*names, ""]).encode(errors="surrogateescape"))
        for name in spread(names, SIZED):
            digest.update(b"%d " % _size(os.path.join(folder, fixed, name)))  # noqa: PTH118
        files += len(names)
    return Fingerprint(files, digest.hexdigest()[:16]) if files else None


def split(pattern: str) -> tuple[str, tuple[str, ...]]:
    """A glob as the folder before its first wildcard, and the parts from there on."""
    parts = PurePath(pattern).parts
    first = next((place for place, part in enumerate(parts) if WILD.search(part)), len(parts) - 1)
    return str(PurePath(*parts[:first])), parts[first:]


def spread(items: Sequence[T], most: int) -> Sequence[T]:
    """At most so many of the items, evenly spread."""
    return items[:: max(1, -(-len(items) // most))]


def _matches(folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Paths below a folder that match the parts of a glob; as pathlib has them, ten times faster."""
    head, rest = parts[0], parts[1:]
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:  # no folder, or one that may not be read: the training did without
        return
    found = fnmatch.filter(names, head) if head != "*" else names
    if not rest:
        yield from found
    for name in found if rest else ():
        for path in _matches(f"{folder}/{name}", rest):
            yield f"{name}/{path}"


def _size(path: str) -> int:
    """Bytes of a file; -1 of a link that leads nowhere."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return -1
