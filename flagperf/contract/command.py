"""One process: its argv and environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    """Words and environment of one process; quoted in one place, `line`."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    def line(self) -> str:
        """The command as one line for a POSIX shell, to be pasted or sent."""
        folder = f"cd {shlex.quote(self.cwd)} && " if self.cwd else ""
        assignments = "".join(f"{name}={shlex.quote(value)} " for name, value in self.env.items())
        return folder + assignments + shlex.join(self.argv)
