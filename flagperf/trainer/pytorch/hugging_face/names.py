"""Names of a network's tensors in published weights, by the table names.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from torch import nn

TABLE = Path(__file__).with_name("names.yaml")


class Match(NamedTuple):
    """A form of a tensor in files. One of both sides has one name.

    Attributes:
        tensors: names in the network, one after the other along a dimension.
        position: of the tensor in `tensors`.
        files: names in the files, with + for the numbers of stacked tensors.
        along: the dimension.
    """

    tensors: Sequence[str]
    position: int
    files: Sequence[str]
    along: int


class Rule(NamedTuple):
    """Patterns of names in the network and in the files."""

    tensors: Sequence[str]
    files: Sequence[str]
    along: int

    def match(self, name: str) -> Match | None:
        """The form of a tensor of the network; None where the rule is about others."""
        for position, pattern in enumerate(self.tensors):
            if match := _expression(pattern).fullmatch(name):
                parts = match.groups()
                tensors, files = ([_filled(form, parts) for form in side] for side in (self.tensors, self.files))
                return Match(tensors, position, files, self.along)
        return None


class Names(NamedTuple):
    """The rules of a network.

    Attributes:
        prefix: of a network's base in transformers: published weights of a base may lack it.
        written: forms of the tensors in written files.
        read: these, and other forms that files may have.
        ignored: patterns of tensors in files that the network does not have.
        config: whether transformers has the network.
    """

    prefix: str
    written: Sequence[Rule]
    read: Sequence[Rule]
    ignored: Sequence[str]
    config: bool

    def ignores(self, name: str) -> bool:
        """Whether a network does not need a tensor of the files."""
        return any(_expression(pattern).fullmatch(name) for pattern in self.ignored)


def names_of(network: nn.Module) -> Names:
    """The rules for a network: those of its class, or of the first base that has any."""
    table = _table()
    section: Mapping[str, Any] = next(
        (table[path] for kind in type(network).__mro__ if (path := class_path_of(kind)) in table), {}
    )
    written = list(_rules(section.get("tensors", {}), section.get("along", 0)))
    read = [*written, *_rules(section.get("read_only", {}), section.get("along", 0))]
    prefix = getattr(network, "base_model_prefix", "")
    return Names(prefix, written, read, section.get("ignored", ()), section.get("config", True))


def tied_names(network: nn.Module) -> dict[str, list[str]]:
    """Name of a parameter → all its names: two layers may share it."""
    names: dict[int, list[str]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {name: same for same in names.values() for name in same}


def class_path_of(kind: type) -> str:
    """Module and name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


@lru_cache(maxsize=None)
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return table


def _rules(section: Mapping[str, str], along: int) -> Iterator[Rule]:
    for tensors, files in section.items():
        yield Rule(_listed(tensors), _listed(files), along)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


@lru_cache(maxsize=None)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(map(re.escape, pattern.split("*"))))


def _filled(pattern: str, texts: Sequence[Any]) -> str:
    first, *others = pattern.split("*")
    return first + "".join(f"{text}{other}" for text, other in zip(texts, others))
