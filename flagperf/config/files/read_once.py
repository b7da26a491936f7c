"""Parses each YAML file once for all jobs: parsing took most of the time of a composition."""

from __future__ import annotations

import io
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf._utils import get_yaml_loader

from flagperf.contract.regular import bounded


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, by OmegaConf's rules; None for an empty file. Callers must not change it.

    Raises:
        YAMLError: the file is not YAML, or has a key twice. The error names the file.
    """
    status = path.stat()
    return _parsed(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1024)
def _parsed(path: Path, _mtime_ns: int, _size: int) -> Any:
    text = path.read_text(encoding="utf-8")
    try:
        return yaml.load(_named(text, path), bounded(_fast_loader(), True))  # a subclass of a safe loader
    except yaml.constructor.ConstructorError:
        raise
    except (yaml.YAMLError, RecursionError) as error:
        return _parsed_slowly(text, path, error)


def _parsed_slowly(text: str, path: Path, first: Exception) -> Any:
    """As `_parsed`, for PyYAML's words in the error. `first`: the error of libyaml."""
    try:
        return yaml.load(_named(text, path), bounded(get_yaml_loader(), True))
    except RecursionError:
        if isinstance(first, yaml.MarkedYAMLError):
            raise first from None
        raise yaml.YAMLError(f"{path} is nested too deeply") from None


def _named(text: str, path: Path) -> io.StringIO:
    """The text as a stream with the name of the file, for errors."""
    stream = io.StringIO(text)
    stream.name = str(path)
    return stream


@cache
def _fast_loader() -> Any:
    """OmegaConf's loader, based on libyaml if PyYAML has libyaml."""
    slow = get_yaml_loader()
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(fast):  # type: ignore[misc,valid-type]
        yaml_implicit_resolvers = slow.yaml_implicit_resolvers
        yaml_constructors = slow.yaml_constructors

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value if key.tag == "tag:yaml.org,2002:str"]
            if len(set(keys)) < len(keys):
                raise yaml.YAMLError("a key twice")
            return super().construct_mapping(node, deep=deep)

    return Loader
