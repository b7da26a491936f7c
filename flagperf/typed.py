"""Builds the frozen dataclasses of schema.py from plain configuration, checking names and types of the fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from flagperf.errors import ConfigError, nearest
from flagperf.origin import Where
from flagperf.words import TYPE_NAMES, is_a

T = TypeVar("T")


def build(cls: type[T], values: Any, key: str, where: Where) -> T:
    """Make a `cls` of a mapping.

    Args:
        key: the dotted key of the mapping, for messages.
        where: dotted key → the file or "command line" that set it, for messages.
    """
    if not isinstance(values, Mapping):
        raise ConfigError("wrong type of value", where=where(key), key=key, given=values, allowed="a mapping")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise ConfigError(
                "unknown key", where=where(f"{key}.{name}"), key=f"{key}.{name}", advice=nearest(str(name), fields)
            )
    for name, field in fields.items():
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in values and not optional:
            raise ConfigError(
                "a required key is missing", where=where(key), key=f"{key}.{name}", allowed=_allowed(hints[name])
            )
    return cls(**{name: _value(hints[name], value, f"{key}.{name}", where) for name, value in values.items()})


def _value(hint: Any, value: Any, key: str, where: Where) -> Any:
    """The value as the hint wants it, or a ConfigError."""
    kinds = _kinds(hint)
    if value is None and type(None) in kinds:
        return None
    for kind in kinds:
        origin = typing.get_origin(kind) or kind
        if origin is tuple and isinstance(value, Sequence) and not isinstance(value, str):
            item = typing.get_args(kind)[0]
            return tuple(_value(item, entry, f"{key}[{index}]", where) for index, entry in enumerate(value))
        if dataclasses.is_dataclass(origin):
            return build(typing.cast(type, origin), value, key, where)
        if origin is typing.Literal and value in typing.get_args(kind):
            return value
        if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
            item = typing.get_args(kind)[1]
            return {str(name): _value(item, entry, f"{key}.{name}", where) for name, entry in value.items()}
        if kind is Any or (isinstance(origin, type) and origin in TYPE_NAMES and is_a(value, origin)):
            return value
    given = "null" if value is None else value
    raise ConfigError("wrong type of value", where=where(key), key=key, given=given, allowed=_allowed(hint))


def _kinds(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _allowed(hint: Any) -> str:
    """The hint in words: "a number, or null"."""
    texts = []
    for kind in _kinds(hint):
        origin = typing.get_origin(kind) or kind
        if origin is type(None):
            texts.append("null")
        elif origin is typing.Literal:
            texts.append(f"one of: {', '.join(map(str, typing.get_args(kind)))}")
        elif origin is tuple:
            texts.append("a list")
        elif dataclasses.is_dataclass(origin) or (isinstance(origin, type) and issubclass(origin, Mapping)):
            texts.append("a mapping")
        else:
            texts.append(TYPE_NAMES[origin])
    return ", or ".join(texts)
