"""The files of a training's data, by names and sizes: a fingerprint that tells two copies of the data apart.

A million files are listed in seconds, so a rank does it when its training is over, and only one rank of each node. A
quick look at some of the folders is made before.
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


class Look(NamedTuple):
    """How many of the files a fingerprint is made of: at most so many, evenly spread in the order of their names."""

    folders: int | None  # that are listed, of those in one folder; None: all
    sized: int  # files of a pattern whose size is asked for: over a network each may take a millisecond


WHOLE, QUICK = Look(None, 10_000), Look(32, 100)


def data_fingerprint(config: Mapping[str, Any], look: Look = WHOLE) -> Fingerprint | None:
    """The fingerprint of the files that the case requires (`data.require`); None where it requires none.

    It is the same wherever the files lie: what stands before a glob's first wildcard is no part of their names.
    """
    folder, digest, files = config["data_dir"], hashlib.sha256(), 0
    for pattern in (config.get("data") or {}).get("require", ()) if folder else ():
        fixed, wild = split(pattern)
        names = sorted(_matches(os.path.join(folder, fixed), wild, look.folders))  # noqa: PTH118
        digest.update("\n".join([*names, ""]).encode(errors="surrogateescape"))
        for name in spread(names, look.sized):
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


def _matches(folder: str, parts: Sequence[str], folders: int | None) -> Iterator[str]:
    """Paths below a folder that match the parts of a glob; as pathlib has them, ten times faster.

    Args:
        folders: of those in one folder, at most so many are gone into.
    """
    head, rest = parts[0], parts[1:]
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:  # no folder, or one that may not be read: the training did without
        return
    found = fnmatch.filter(names, head) if head != "*" else names
    if not rest:
        yield from found
        return
    for name in spread(sorted(found), folders) if folders else found:
        for path in _matches(f"{folder}/{name}", rest, folders):
            yield f"{name}/{path}"


def _size(path: str) -> int:
    """Bytes of a file; -1 of a link that leads nowhere."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return -1
