"""YAML files, each parsed once however many jobs are composed: parsing was most of a composition."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf._utils import get_yaml_loader


def read_yaml(path: Path) -> Any:
    """What a YAML file holds, by OmegaConf's rules; not to be changed. An empty file holds None.

    Raises:
        YAMLError: it is no YAML, or has a key twice. The error names the file.
    """
    found = path.stat()
    return _parsed(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1024)
def _parsed(path: Path, _mtime_ns: int, _size: int) -> Any:
    text = path.read_text(encoding="utf-8")
    try:
        return yaml.load(text, _fast_loader())  # made of a safe one
    except yaml.YAMLError:
        with path.open(encoding="utf-8") as file:  # by its name the error tells where, in words not of libyaml
            return yaml.load(file, get_yaml_loader())


@cache
def _fast_loader() -> Any:
    """OmegaConf's loader, on libyaml where PyYAML has it."""
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
