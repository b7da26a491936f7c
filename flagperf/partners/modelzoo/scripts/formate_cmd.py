"""Shows a command as a shell would take it, a word a line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def formatted(argv: Sequence[str]) -> str:
    return " \\\n    ".join(map(shlex.quote, argv))
