"""Files of folders that others can write into: only regular ones are read, and what is written goes to no other place.

A pipe or a device never ends; a link leads elsewhere.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any


def regular(path: Path) -> Path:
    """The path of a regular file, of a link to one, or of nothing.

    Raises:
        OSError: something else is there.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def read_yaml(path: Path) -> Any:
    """What a regular YAML file holds, by PyYAML's safe rules. libyaml reads it, where PyYAML has it: ten times as fast.

    Raises:
        OSError, ValueError, YAMLError: it cannot be read.
    """
    import yaml  # heavy, and only some need it

    return yaml.load(regular(path).read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def write_whole(path: Path, text: str) -> Path:
    """Write a file in the place of what is there, a link too. A reader never sees half of it."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(text)
        return partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
