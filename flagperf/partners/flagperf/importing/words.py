"""FlagPerf's names and ours (words.yaml), and a value of FlagPerf as settings of ours."""

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
    content: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
    return content


def case_of(model: str) -> str:
    """FlagPerf's folder of a case → the case here."""
    return str(words()["cases"].get(model, model))


def why_no_case(model: str, framework: str) -> str:
    """The reason why a case of FlagPerf is not imported."""
    model, _, first = model.partition("-")  # such as llama2_7b-megatron on deepspeed
    framework = f"{first}-{framework}" if first else framework
    if case := words()["trained_otherwise"].get(model):
        return f"written for {framework}; flagperf trains the network with PyTorch and other settings: model={case}"
    reasons = (reason for reason, models in words()["left_out"].items() if model in models)
    return next(reasons, f"there is no case {model} on {framework} here")


def hardware_of(name: str) -> str:
    """The name here of a product that FlagPerf names so."""
    return str(words()["hardware"].get(name, name))


def settings_of(
    case: str, name: str, value: Any, number: Callable[[str], float | None]
) -> Iterator[tuple[str, Any]] | None:
    """The settings of ours for a value of FlagPerf; None where the value has no counterpart.

    Args:
        case: such as bert or paddle/bert.
        number: FlagPerf's key → its number in effect; None where the key has no number.
    """
    of_case = words()["case"].get(case, {})
    entry = of_case[name] if name in of_case else words()["every_case"].get(name)
    if entry is None:
        return None
    entries = entry if isinstance(entry, list) else [entry]
    settings = (_setting(item if isinstance(item, dict) else {"key": item}, value, number) for item in entries)
    return (setting for setting in settings if setting is not None)


def _setting(entry: Mapping[str, Any], value: Any, number: Callable[[str], float | None]) -> tuple[str, Any] | None:
    if "values" in entry:
        value = entry["values"].get(value, value)
    if "first" in entry and isinstance(value, list) and value:
        value = value[0]
    if "over" in entry:
        divisor = number(entry["over"]) or 1
        value = _each(value, lambda item: item // divisor if isinstance(item, int) else item / divisor)
    if "times" in entry:
        value = _each(value, lambda item: item * (number(entry["times"]) or 1))
    if "share_of" in entry:
        total = number(entry["share_of"])
        if not value or not total:
            return None
        value = _each(value, lambda item: item / total)
    return entry["key"], value


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The changed number, or a list with changed numbers. Other values stay."""
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    return change(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def why_not(case: str, name: str) -> str:
    """The reason why a name of FlagPerf has no counterpart."""
    reasons = (
        reason for reason, names in words()["without"].items() if name.partition(".")[0] in names or name in names
    )
    return "nothing reads it there" if name in words()["case"].get(case, {}) else next(reasons, UNKNOWN)


def why_no_variable(name: str) -> str | None:
    """The reason why a variable of FlagPerf's environment_variables.sh is not for the ranks; None where it is."""
    return next((reason for reason, names in words()["variables_without"].items() if name in names), None)
