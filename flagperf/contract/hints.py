"""The type hints of a dataclass, as descriptions of the values that its fields take."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from typing_extensions import Annotated, get_type_hints

from flagperf.contract.fields import Field

UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))  # the second since Python 3.10
LISTS = (tuple, Sequence)


@lru_cache(maxsize=None)
def hints_of(cls: Any) -> dict[str, Any]:
    """Field → type hint. Each is compiled from its text, which takes longer than the check of a value."""
    return get_type_hints(cls, include_extras=True)


def without_none(hint: Any) -> tuple[Any, bool]:
    """The type hint without its `| None`, and whether it had one."""
    if typing.get_origin(hint) not in UNIONS:
        return hint, False
    (kind,) = (argument for argument in typing.get_args(hint) if argument is not type(None))
    return kind, True


def field_of_hint(kind: Any, null: bool) -> Field:
    """The values that a type hint allows. `kind`: the hint without its `| None`; `null`: whether it had one."""
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is Annotated:
        field: Field = arguments[1]
        return replace(field, null=null)
    if origin is Literal:
        return Field(str, options=arguments, null=null)
    if origin in LISTS:
        return Field(list, null=null)
    return Field(dict if origin is Mapping or is_dataclass(origin) else origin, null=null)


def fields_of(cls: Any, prefix: str = "") -> dict[str, Field]:
    """Dotted key → the values that it accepts, for each field of a dataclass and of the dataclasses in it."""
    fields: dict[str, Field] = {}
    for name, hint in hints_of(cls).items():
        kind, null = without_none(hint)
        below = (
            fields_of(kind, f"{prefix}{name}.") if is_dataclass(kind) else {prefix + name: field_of_hint(kind, null)}
        )
        fields.update(below)
    return fields
