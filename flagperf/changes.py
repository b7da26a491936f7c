"""What differs from the case, where it was set, and whether the rules of the division allow it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from flagperf.errors import ConfigError
from flagperf.schema import Change
from flagperf.words import RENAMED, is_platform, is_under, meant

ABSENT = object()

Leaves = dict[str, Any]  # dotted key → value, unresolved; lists and empty mappings are leaves


def leaves(tree: Mapping[Any, Any], prefix: str = "") -> Leaves:
    """Flatten a nested mapping."""
    flat: Leaves = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(leaves(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def differing(before: Leaves, after: Leaves) -> list[str]:
    """Keys whose values differ, or that only one side has; a whole number is not the same as a number, 1 is not true."""
    return [
        key
        for key in {**before, **after}
        if (old := before.get(key, ABSENT)) != (new := after.get(key, ABSENT)) or type(old) is not type(new)
    ]


def changes(case: Leaves, final: Leaves, source: Callable[[str], str]) -> tuple[Change, ...]:
    """Every value of the case that a tuning, an experiment or the command line changed."""
    return tuple(
        Change(key, case.get(key), final.get(key), source(key))
        for key in differing(case, final)
        if not is_platform(key)
    )


def check_known(key: str, known: Collection[str], where: str) -> None:
    """Refuse a key that nothing reads. `known`: all dotted keys, parents included."""
    if key in known:
        return
    renamed = f"FlagPerf's '{key}' is {RENAMED[key]} here" if key in RENAMED else None
    advice = renamed or meant(key, known) or "dry_run=true prints all keys of a case"
    raise ConfigError("unknown key", where=where, key=key, advice=advice)


def check_tuning(
    keys: Iterable[str], mutable: Collection[str], values: Leaves, where: Callable[[str], str], rules: str
) -> None:
    """Refuse a tuning that changes more than mutable keys, in either division."""
    for key in keys:
        if not is_under(key, mutable):
            raise ConfigError(
                "a tuning may change mutable keys only",
                where=where(key),
                key=key,
                given=values.get(key),
                allowed=f"the keys of {rules}",
                advice="take it out of the tuning; an experiment with division=open may set it",
            )


def check_closed(changed: Iterable[Change], mutable: Collection[str], where: Callable[[str], str], rules: str) -> None:
    """Refuse a change that a closed run must not make."""
    for change in changed:
        if not is_under(change.key, mutable):
            raise ConfigError(
                "a closed run may not change this key",
                where=where(change.key),
                key=change.key,
                given=change.after,
                allowed=f"the keys of {rules}",
                advice="division=open allows it, and the report says so",
            )
