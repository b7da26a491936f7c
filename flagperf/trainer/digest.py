"""A short text that identifies the tensors, modules or names of a network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def digest(lines: Iterable[str]) -> str:
    """16 hexadecimal digits of a SHA-256 over the lines, in any order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
