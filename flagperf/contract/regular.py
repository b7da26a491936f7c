"""Reads and writes files, also in folders that others can write into.

Only regular files are read, since a pipe or a device never ends. A write replaces a link and does not follow it.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import shutil
from collections.abc import Iterator
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


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a file, and replace the file or link that is there. A reader never sees a half-written file.

    Several processes may write the same file: the last one wins.
    """
    data = content.encode() if isinstance(content, str) else content
    with beside(path) as partial:
        with partial.open("xb") as file:
            file.write(data)
        return partial.replace(path)


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A name in the same folder that no other process uses, for a file or folder that gets the name `path` when it is
    complete. Whatever still has the name after the block is removed.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
    finally:
        if partial.is_dir() and not partial.is_symlink():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                partial.unlink()
