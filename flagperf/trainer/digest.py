"""Texts that identify the tensors, modules, names or classes of a network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any


def digest(lines: Iterable[str]) -> str:
    """16 hexadecimal digits of a SHA-256 over the lines, in any order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def path_of(thing: Any) -> str:
    """Module and name of a thing's class."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
