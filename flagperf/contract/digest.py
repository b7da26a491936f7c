"""Short hashes: of the tensors, modules or names of a network, and of the content of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

BLOCK = 1 << 20  # bytes that are read at a time


def digest(lines: Iterable[str]) -> str:
    """16 hexadecimal digits of a SHA-256 over the lines, in any order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, read block by block."""
    hasher = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            hasher.update(block)
    return hasher.hexdigest()
