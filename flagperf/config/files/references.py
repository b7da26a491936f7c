"""`${…}` in plain trees: a reference to another key is followed here, the rest of its grammar is OmegaConf's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

OPENS = "${"
MISSING = "???"  # a value that a file above has to set
REFERENCE = re.compile(r"\$\{(\w+(?:\.\w+)*)\}")


class NotPlainError(Exception):
    """Only OmegaConf knows what this text, or this place for a value, means."""


def is_reference(value: object) -> bool:
    """True for text with ${…}."""
    return isinstance(value, str) and OPENS in value


def resolved(value: Any, root: Mapping[str, Any]) -> Any:
    """The value without ${…}, in containers of its own.

    Args:
        root: the tree in which references look up their keys.

    Raises:
        NotPlainError: a reference leads nowhere, or is more than the name of a key.
    """
    if isinstance(value, dict):
        return {key: resolved(item, root) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, root) for item in value]
    return _of_text(value, root) if is_reference(value) else value


def at(root: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key, through references that stand for its parents.

    Raises:
        KeyError: there is none.
        NotPlainError: a reference on the way is more than a reference.
    """
    found: Any = root
    for part in key.split("."):
        found = resolved(found, root) if is_reference(found) else found
        if not isinstance(found, dict):
            raise KeyError(key)
        found = found[part]
    return found


def _of_text(text: str, root: Mapping[str, Any]) -> Any:
    if "\\" in text or len(REFERENCE.findall(text)) < text.count(OPENS):
        raise NotPlainError(text)
    if whole := REFERENCE.fullmatch(text):
        return _of_key(whole[1], root)
    return REFERENCE.sub(lambda found: _word(_of_key(found[1], root)), text)


def _of_key(key: str, root: Mapping[str, Any]) -> Any:
    try:
        found = resolved(at(root, key), root)
    except (KeyError, RecursionError):
        raise NotPlainError(key) from None
    if found == MISSING:
        raise NotPlainError(key)
    return found


def _word(value: Any) -> str:
    if isinstance(value, (dict, list)):
        raise NotPlainError(value)
    return str(value)
