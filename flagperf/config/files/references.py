"""Resolves `${…}` in plain trees where it is the name of another key. OmegaConf resolves all other forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

OPENS = "${"
MISSING = "???"  # a value that another file must set
REFERENCE = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")


class NotPlainError(Exception):
    """Only OmegaConf can resolve this text or set this key."""


def is_reference(value: object) -> bool:
    """Whether a value is text with ${…}."""
    return isinstance(value, str) and OPENS in value


def resolved(value: Any, root: Mapping[str, Any]) -> Any:
    """A copy of the value without ${…}.

    Args:
        root: the tree with the keys of references.

    Raises:
        NotPlainError: the key of a reference is missing, or a reference is more than a key.
    """
    if isinstance(value, dict):
        return {key: resolved(item, root) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, root) for item in value]
    return _of_text(value, root) if is_reference(value) else value


def at(root: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key. Its parents may be references.

    Raises:
        KeyError: the key is missing.
        NotPlainError: a parent is text with more than a reference.
    """
    value: Any = root
    for part in key.split("."):
        value = resolved(value, root) if is_reference(value) else value
        if not isinstance(value, dict):
            raise KeyError(key)
        value = value[part]
    return value


def _of_text(text: str, root: Mapping[str, Any]) -> Any:
    if "\\" in text or len(REFERENCE.findall(text)) < text.count(OPENS):
        raise NotPlainError(text)
    if match := REFERENCE.fullmatch(text):
        return _of_key(match[1], root)
    return REFERENCE.sub(lambda match: _word(_of_key(match[1], root)), text)


def _of_key(key: str, root: Mapping[str, Any]) -> Any:
    try:
        value = resolved(at(root, key), root)
    except (KeyError, RecursionError):
        raise NotPlainError(key) from None
    if value == MISSING:
        raise NotPlainError(key)
    return value


def _word(value: Any) -> str:
    if isinstance(value, (dict, list)):
        raise NotPlainError(value)
    return str(value)
