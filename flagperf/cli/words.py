"""The words after a verb that takes files or folders, and then options as key=value."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from flagperf.cli.help import usage
from flagperf.errors import ConfigError, nearest
from flagperf.user import user_path

OVERRIDE = re.compile(r"\+{0,2}[A-Za-z_][\w.]*(?==)")  # the key of key=value; a word with a slash before = is a path


def paths_and_options(
    verb: str, arguments: Sequence[str], allowed_keys: Collection[str]
) -> tuple[list[Path], dict[str, str]]:
    """Split arguments into paths and options. Raises ConfigError for an option that is not allowed."""
    paths = [user_path(argument) for argument in arguments if not _is_option(argument)]
    values = dict(argument.split("=", 1) for argument in arguments if _is_option(argument))
    for key in values:
        if key not in allowed_keys:
            allowed = nearest(key, allowed_keys) if allowed_keys else None
            raise ConfigError(f"unknown option of {verb}", given=key, allowed=allowed, advice=usage(verb))
    return paths, values


def above_0(key: str, text: str, problem: str = "not a number above 0", allowed: str | None = None) -> float:
    """The number of an option. Raises ConfigError with this problem where the text is no number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ConfigError(problem, key=key, given=text, allowed=allowed)
    return number


def runs_and_overrides(
    arguments: Sequence[str], verb_keys: Collection[str]
) -> tuple[list[Path], dict[str, str], list[str]]:
    """Split arguments into folders of runs, the verb's own options, and overrides of the configuration.

    Folders are given as `runs=A,B`, or as single words.

    Raises:
        ConfigError: an option of the verb is empty.
    """
    keys = {word: match[0] for word in arguments if (match := OVERRIDE.match(word))}
    values = {key: word.partition("=")[2] for word, key in keys.items() if key in (*verb_keys, "runs")}
    for key, value in values.items():
        if not value:
            raise ConfigError("an empty option", key=key, advice=f"give {key}=VALUE, or leave {key} out")
    listed = [path for word, key in keys.items() if key == "runs" for path in word.removeprefix("runs=").split(",")]
    runs = [user_path(word) for word in (*listed, *(word for word in arguments if word not in keys))]
    return runs, values, [word for word, key in keys.items() if key not in values]


def need(action: str, keys: Collection[str], given: Collection[str]) -> None:
    """Raise ConfigError for a missing key of an action such as "docs case"."""
    for key in keys:
        if key not in given:
            raise ConfigError(f"{action} needs {key}=", key=key, advice=usage(action.split()[0]))


def expect(verb: str, paths: Sequence[Path], count: int, description: str) -> None:
    """Raise ConfigError unless so many paths are given. The message has their description."""
    if len(paths) != count:
        given = " ".join(map(str, paths)) or '""'
        raise ConfigError(f"{verb} takes {description}", given=given, advice=usage(verb))


def _is_option(argument: str) -> bool:
    key, equals, _ = argument.partition("=")
    return bool(equals) and key.isidentifier()
