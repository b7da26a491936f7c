"""A file of log lines."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class LineFile:
    """A file that takes whole lines, complete even when the process is killed."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def line(self, prefix: str, body: Mapping[str, Any]) -> None:
        """Write a line: the prefix, then the body as JSON."""
        data = f"{prefix} {json.dumps(body)}\n".encode()
        while data:
            data = data[os.write(self._fd, data) :]
