"""FlagPerf's names and ours: what words.yaml says, and a value of FlagPerf as the settings that it is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

UNKNOWN = "flagperf has no such key"


@cache
def words() -> Mapping[str, Any]:
    """The content of words.yaml."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
    return found


def case_of(model: str) -> str:
    """FlagPerf's folder of a case → the case here."""
    return str(words()["cases"].get(model, model))


def hardware_of(name: str) -> str:
    return str(words()["hardware"].get(name, name))


def settings_of(
    case: str, name: str, value: Any, number: Callable[[str], float | None]
) -> Iterator[tuple[str, Any]] | None:
    """The settings here that a value of FlagPerf stands for; None where it has no counterpart.

    Args:
        case: such as bert or paddle/bert.
        number: FlagPerf's key → its number in effect; None where it has none.
    """
    of_case = words()["case"].get(case, {})
    entry = of_case[name] if name in of_case else words()["every_case"].get(name)
    if entry is None:
        return None
    entries = entry if isinstance(entry, list) else [entry]
    found = (_setting(one if isinstance(one, dict) else {"key": one}, value, number) for one in entries)
    return (setting for setting in found if setting is not None)


def _setting(entry: Mapping[str, Any], value: Any, number: Callable[[str], float | None]) -> tuple[str, Any] | None:
    if "values" in entry:
        value = entry["values"].get(value, value)
    if "first" in entry and isinstance(value, list) and value:
        value = value[0]
    if "over" in entry:
        value = _each(value, lambda one: _divided(one, number(entry["over"]) or 1))
    if "times" in entry:
        value = _each(value, lambda one: one * (number(entry["times"]) or 1))
    if "share_of" in entry:
        whole = number(entry["share_of"])
        if not value or not whole:
            return None
        value = _each(value, lambda one: one / whole)
    return entry["key"], value


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The number changed, or each number of a list; other values as they are."""
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    return change(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _divided(value: Any, by: float) -> Any:
    return value // by if isinstance(value, int) else value / by


def why_not(case: str, name: str) -> str:
    """Why a name of FlagPerf has no counterpart."""
    reasons = (why for why, names in words()["without"].items() if name.partition(".")[0] in names or name in names)
    return "nothing reads it there" if name in words()["case"].get(case, {}) else next(reasons, UNKNOWN)


def why_no_variable(name: str) -> str | None:
    """Why a variable of FlagPerf's environment_variables.sh is none of the ranks; None where it is one."""
    return next((why for why, names in words()["variables_without"].items() if name in names), None)
