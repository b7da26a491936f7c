"""Shows a command in the syntax of a shell, with a word in each line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def formatted(argv: Sequence[str]) -> str:
    """A command for a shell, with one argument in each line."""
    return " \\\n    ".join(map(shlex.quote, argv))
