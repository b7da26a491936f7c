"""Builds the frozen dataclasses from plain data, and checks each field."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Callable, TypeVar

from flagperf.contract.hints import LISTS, field_of_hint, hints_of, without_none
from flagperf.errors import ConfigError, nearest

T = TypeVar("T")
Where = Callable[[str], str]  # dotted key → the file or "command line" that set it


def build(cls: type[T], values: Any, key: str, where: Where) -> T:
    """Make a `cls` of a mapping.

    Args:
        key: the dotted key of the mapping, for messages; empty: it is the whole configuration.
        where: dotted key → the file or "command line" that set it, for messages.

    Raises:
        ConfigError: the first error of `read_fields`.
    """
    fields, refused = read_fields(cls, values, key, where)
    if refused:
        raise refused[0]
    return cls(**fields)


def values_of_fields(cls: type, config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a checked configuration whose keys are also fields of a dataclass."""
    return {field.name: config[field.name] for field in dataclasses.fields(cls) if field.name in config}


def read_fields(cls: type, values: Any, key: str, where: Where) -> tuple[dict[str, Any], list[ConfigError]]:
    """The fields of a `cls` that a mapping sets, and an error for each key that is unknown, missing or wrong."""
    if not isinstance(values, Mapping):
        problem = "wrong type of value"
        return {}, [ConfigError(problem, where=where(key), key=key or None, given=values, allowed="a mapping")]
    hints = hints_of(cls)
    known = {field.name: field for field in dataclasses.fields(cls)}
    above = f"{key}." if key else ""
    refused = [_unknown(str(name), known, above + str(name), where) for name in values if name not in known]
    for name, field in known.items():
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in values and not optional:
            refused.append(_missing(hints[name], above + name, where(key)))
    fields = {}
    for name in (name for name in values if name in known):
        try:
            fields[name] = _value(hints[name], values[name], above + name, where)
        except ConfigError as error:
            refused.append(error)
    return fields, refused


def _unknown(name: str, known: Mapping[str, object], key: str, where: Where) -> ConfigError:
    return ConfigError("unknown key", where=where(key), key=key, advice=nearest(name, known))


def _missing(hint: Any, key: str, where: str) -> ConfigError:
    return ConfigError(
        "a required key is missing", where=where, key=key, allowed=str(field_of_hint(*without_none(hint)))
    )


def _value(hint: Any, value: Any, key: str, where: Where) -> Any:
    """The value in the type of the hint. Raises ConfigError."""
    kind, null = without_none(hint)
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if kind is Any or (value is None and null):
        return value
    if dataclasses.is_dataclass(origin):
        return build(typing.cast(type, origin), value, key, where)
    if origin in LISTS and isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_value(arguments[0], entry, f"{key}[{index}]", where) for index, entry in enumerate(value))
    if origin is Mapping and isinstance(value, Mapping):
        names = {str(name): entry for name, entry in value.items()}
        return {
            _value(arguments[0], name, f"{key}.{name}", where): _value(arguments[1], entry, f"{key}.{name}", where)
            for name, entry in names.items()
        }
    field_of_hint(kind, null).check(key, value, where)
    return value
