"""The files of a training's data, by names and sizes: a fingerprint that differs between different data.

To list a million files takes seconds. So one rank of each node does it, when its training is over. A quick scan of some
folders comes before the training.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

WILD = re.compile(r"[*?\[]")

T = TypeVar("T")


class Fingerprint(NamedTuple):
    """Of the files of a data set."""

    files: int
    digest: str  # of their names and sizes, 16 hexadecimal digits


class Scan(NamedTuple):
    """Limits on the files of a fingerprint. Those within a limit are evenly spread in the order of their names."""

    folders: int | None  # folders that are listed, of those in one folder; None: all
    sizes: int  # files of a pattern whose size is read: over a network each may take a millisecond


FULL, QUICK = Scan(None, 10_000), Scan(32, 100)


def data_fingerprint(config: Mapping[str, Any], scan: Scan = FULL) -> Fingerprint | None:
    """The fingerprint of the files that the case requires (`data.require`); None where it requires none.

    It does not depend on where the files lie: the part before a glob's first wildcard does not count as their name.
    """
    folder, digest, files = config["data_dir"], hashlib.sha256(), 0
    for pattern in (config.get("data") or {}).get("require", ()) if folder else ():
        fixed, wild = split(pattern)
        names = sorted(_matches(os.path.join(folder, fixed), wild, scan.folders))  # noqa: PTH118
        digest.update("\n".join([*names, ""]).encode(errors="surrogateescape"))
        for name in spread(names, scan.sizes):
            digest.update(b"%d " % _size(os.path.join(folder, fixed, name)))  # noqa: PTH118
        files += len(names)
    return Fingerprint(files, digest.hexdigest()[:16]) if files else None


def split(pattern: str) -> tuple[str, tuple[str, ...]]:
    """A glob as the folder before its first wildcard, and the parts from there on."""
    parts = PurePath(pattern).parts
    first = next((index for index, part in enumerate(parts) if WILD.search(part)), len(parts) - 1)
    return str(PurePath(*parts[:first])), parts[first:]


def spread(items: Sequence[T], most: int) -> Sequence[T]:
    """At most `most` of the items, evenly spread."""
    return items[:: max(1, -(-len(items) // most))]


def _matches(folder: str, parts: Sequence[str], folders: int | None) -> Iterator[str]:
    """Paths below a folder that match the parts of a glob; as pathlib has them, ten times faster.

    Args:
        folders: limit of searched sub-folders of a folder.
    """
    head, *rest = parts
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:  # no folder, or one that may not be read: the training did without
        return
    matching = fnmatch.filter(names, head) if head != "*" else names
    if not rest:
        yield from matching
        return
    for name in spread(sorted(matching), folders) if folders else matching:
        for path in _matches(f"{folder}/{name}", rest, folders):
            yield f"{name}/{path}"


def _size(path: str) -> int:
    """Bytes of a file; -1 for a link that leads nowhere."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return -1
