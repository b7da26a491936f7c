"""Finds the source of a value: the file or override that set the value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import find
from flagperf.config.schema.keys import SOFTWARE, is_platform, is_under
from flagperf.contract.build import Where
from flagperf.contract.leaves import Leaves, differing
from flagperf.contract.records import Change
from flagperf.secret import shown


def changes(case: Leaves, final: Leaves, source: Callable[[str], str]) -> tuple[Change, ...]:
    """All changes of the case by a user's file, a tuning, an experiment or the command line, without secrets."""
    return tuple(
        Change(key, shown(case.get(key), key), shown(final.get(key), key), source(key))
        for key in differing(case, final)
        if not is_platform(key) or is_under(key, SOFTWARE)
    )


def experiment_of(key: str, experiments: Mapping[str, str]) -> str | None:
    """The experiment whose sweep or suite sets a dotted key; None: none does. `experiments`: key → experiment."""
    return next((name for set_key, name in experiments.items() if is_under(key, (set_key,))), None)


def origin(
    names: Sequence[str], folders: Sequence[Path], overrides: Collection[str], experiments: Mapping[str, str]
) -> Where:
    """A function from a dotted key to the file that set it, or "command line". A file is read when a message needs it.

    Args:
        names: the files of the composition, such as "vendor/nvidia", highest precedence first.
        folders: the search path.
        overrides: the keys that the command line set, or the sweep or suite of an experiment.
        experiments: of these, key → experiment.
    """

    def where(key: str) -> str:
        parts = re.sub(r"\[\d+\].*", "", key).split(".")
        if is_under(name := ".".join(parts), overrides):
            experiment = experiment_of(name, experiments)
            return str(find(f"experiment/{experiment}", folders)) if experiment else "command line"
        while parts:
            for name in names:
                path = find(name, folders)
                if path and _sets(path, name.split("/")[0], parts):
                    return str(path)
            parts.pop()
        return "command line"

    return where


def _sets(path: Path, group: str, parts: Sequence[str]) -> bool:
    """True when the file has the key, written from the root or from its group."""
    tree = read_yaml(path)
    return _has(tree, parts) or (parts[0] == group and _has(tree, parts[1:]))


def _has(tree: Any, parts: Sequence[str]) -> bool:
    for part in parts:
        tree = {str(name): value for name, value in tree.items()} if isinstance(tree, Mapping) else {}
        if part not in tree:
            return False
        tree = tree[part]
    return True
