"""Reads and writes files, also in folders that others can write into.

Only regular files are read, since a pipe or a device never ends. A write replaces a link and does not follow it.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any


def regular(path: Path) -> Path:
    """The path of a regular file, of a link to one, or of nothing.

    Raises:
        OSError: the path leads to another kind of file.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def read_yaml(path: Path) -> Any:
    """The content of a regular YAML file, by PyYAML's safe rules; libyaml, where PyYAML has it, is ten times as fast.

    Raises:
        OSError, ValueError, YAMLError: the file cannot be read.
    """
    import yaml  # heavy, and only some need it

    return yaml.load(regular(path).read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def yaml_text(content: object) -> str:
    """A YAML text of plain data, in the order of its keys, by libyaml where PyYAML has it."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(content, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120))


def write_atomically(path: Path, text: str) -> Path:
    """Write a file, and replace the file or link that is there. A reader never sees a half-written file."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(text)
        return partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
