"""Reads and writes files, also in folders that others can write into.

Only regular files are read, since a pipe or a device never ends. A write replaces a link and does not follow it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError

# Of a YAML or JSON file of anyone. Later code follows its nesting by recursion.
LARGEST = 64 << 20  # bytes of YAML
LARGEST_TEXT = 1 << 30  # bytes of any other file that is read whole; a sparse file takes no room on its disk
DEEPEST = 100  # levels; a configuration has ten
MOST_NODES = 1_000_000
LONGEST_NUMBER = 25  # characters of a whole number


def regular(path: Path) -> Path:
    """The path of a regular file, of a link to one, or of nothing.

    Raises:
        OSError: the path leads to another kind of file.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def read_text(path: Path, *, errors: str = "strict", largest: int = LARGEST_TEXT) -> str:
    """The text of a regular file of anyone.

    Raises:
        OSError, ValueError: it is another kind of file, too large, or no UTF-8 text.
    """
    return _of_size(path, largest).read_text(encoding="utf-8", errors=errors)


def read_bytes(path: Path, *, largest: int = LARGEST_TEXT) -> bytes:
    """The content of a regular file of anyone.

    Raises:
        OSError, ValueError: it is another kind of file, or too large.
    """
    return _of_size(path, largest).read_bytes()


def _of_size(path: Path, largest: int) -> Path:
    if regular(path).stat().st_size > largest:
        raise ValueError(f"larger than {largest >> 20} MiB")
    return path


def log_text(path: Path) -> str:
    """The text of a log; empty where there is no regular file, or a larger one than LARGEST_TEXT."""
    try:
        return read_text(path, errors="replace") if path.is_file() else ""
    except ValueError:
        return ""


def read_yaml(path: Path, *, aliases: bool = False) -> Any:
    """The content of a regular YAML file of anyone, by the rules of `parse_yaml`.

    Raises:
        OSError, ValueError, YAMLError: the file cannot be read.
    """
    return parse_yaml(read_text(path, largest=LARGEST), aliases=aliases)


def parse_yaml(text: str, *, aliases: bool = False) -> Any:
    """The content of a YAML text of anyone, by PyYAML's safe rules and those of `bounded`.

    libyaml, where PyYAML has it, is ten times as fast.

    Raises:
        ValueError, YAMLError: the text cannot be read.
    """
    import yaml  # heavy, and only some need it

    try:
        return yaml.load(text, bounded(getattr(yaml, "CSafeLoader", yaml.SafeLoader), aliases))
    except RecursionError:
        raise yaml.YAMLError(f"nested more than {DEEPEST} levels deep") from None


def parse_json(text: str | bytes) -> Any:
    """The content of a JSON text of anyone.

    Raises:
        ValueError: it is no JSON, is nested more than DEEPEST levels deep, or has longer numbers than any figure.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST} levels deep") from None
    values = [(content, 0)]
    while values:
        value, deep = values.pop()
        if deep > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} levels deep")
        if isinstance(value, int) and abs(value) >= 10**LONGEST_NUMBER:
            raise ValueError(f"a number of more than {LONGEST_NUMBER} characters")
        if isinstance(value, (dict, list)):
            values += [(part, deep + 1) for part in (value.values() if isinstance(value, dict) else value)]
    return content


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a regular YAML file of anyone.

    Raises:
        ConfigError: the file cannot be read, or holds something else.
    """
    import yaml

    try:
        content = read_yaml(path)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError("this file cannot be read", where=str(path), given=str(error)) from None
    if not isinstance(content, dict):
        problem, given = "this file cannot be read", type(content).__name__
        raise ConfigError(problem, where=str(path), given=given, allowed="a mapping")
    return content


@lru_cache(maxsize=8)
def bounded(loader: Any, aliases: bool) -> Any:
    """A loader of PyYAML that refuses a file before it becomes objects that fill the memory or the stack.

    Args:
        aliases: whether a file may repeat a part by its name (`*part`). A few lines can stand for any size.
    """

    class Bounded(loader):  # type: ignore[misc]
        def get_single_node(self) -> Any:
            node = super().get_single_node()
            _check_nodes(node, aliases)
            return node

    return Bounded


def _check_nodes(top: Any, aliases: bool) -> None:
    """Refuse a tree of YAML that is too deep or too large, has longer numbers than any figure, or repeated parts."""
    from yaml.constructor import ConstructorError

    seen: set[int] = set()
    nodes, count = [(top, 0)] if top is not None else [], 0
    while nodes:
        node, deep = nodes.pop()
        count += 1
        problem = ""
        if deep > DEEPEST:
            problem = f"nested more than {DEEPEST} levels deep"
        elif count > MOST_NODES:
            problem = f"more than {MOST_NODES} values"
        elif not aliases and id(node) in seen:
            problem = "a part with a name that is repeated (*name); write the part again"
        elif node.tag == "tag:yaml.org,2002:int" and len(node.value) > LONGEST_NUMBER:
            problem = f"a number of more than {LONGEST_NUMBER} characters"
        if problem:
            raise ConstructorError(None, None, problem, node.start_mark)
        seen.add(id(node))
        if isinstance(node.value, list):
            parts = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
            nodes += [(part, deep + 1) for part in parts]


def yaml_text(content: object) -> str:
    """A YAML text of plain data, in the order of its keys, by libyaml where PyYAML has it.

    A part that is in several places is written in each, as `read_yaml` wants it.
    """
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, _: Any) -> bool:
            return True

    return str(yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120))


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


def below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder, however deep. Links are not followed; a folder that cannot be read has no content."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        yield from entries
        waiting += [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]
