"""The words after a verb that takes files or folders, and then options as key=value."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from flagperf.cli.help import usage
from flagperf.config.files.user_path import user_path
from flagperf.errors import ConfigError, nearest

OVERRIDE = re.compile(r"\+{0,2}[A-Za-z_][\w.]*(?==)")  # key of key=value; what has a slash in it is a path


def paths_and_options(verb: str, arguments: Sequence[str], known: Collection[str]) -> tuple[list[Path], dict[str, str]]:
    """Split them. Raises ConfigError for an option that the verb does not know."""
    paths = [user_path(argument) for argument in arguments if not _is_option(argument)]
    given = dict(argument.split("=", 1) for argument in arguments if _is_option(argument))
    for key in given:
        if key not in known:
            allowed = nearest(key, known) if known else None
            raise ConfigError(f"unknown option of {verb}", given=key, allowed=allowed, advice=usage(verb))
    return paths, given


def runs_and_overrides(arguments: Sequence[str], own: Collection[str]) -> tuple[list[Path], dict[str, str], list[str]]:
    """Split words into folders of runs, the verb's own options, and overrides of the configuration.

    Folders stand after `runs=`, between commas, and as words of their own. Raises ConfigError for an own option that
    is empty.
    """
    keys = {word: found[0] for word in arguments if (found := OVERRIDE.match(word))}
    given = {key: word.partition("=")[2] for word, key in keys.items() if key in (*own, "runs")}
    for key, value in given.items():
        if not value:
            raise ConfigError("an empty option", key=key, advice=f"say {key}=SOMETHING, or leave it out")
    named = [path for word, key in keys.items() if key == "runs" for path in word.removeprefix("runs=").split(",")]
    runs = [user_path(word) for word in (*named, *(word for word in arguments if word not in keys))]
    return runs, given, [word for word, key in keys.items() if key not in given]


def need(action: str, keys: Collection[str], there: Collection[str]) -> None:
    """Raise ConfigError for a key that an action such as "docs case" takes and that is not there."""
    for key in keys:
        if key not in there:
            raise ConfigError(f"{action} needs {key}=", key=key, advice=usage(action.split()[0]))


def expect(verb: str, paths: Sequence[Path], count: int, what: str) -> None:
    """Raise ConfigError unless so many paths are given; `what` they are, in words."""
    if len(paths) != count:
        given = " ".join(map(str, paths)) or '""'
        raise ConfigError(f"{verb} takes {what}", given=given, advice=usage(verb))


def _is_option(argument: str) -> bool:
    key, equals, _ = argument.partition("=")
    return bool(equals) and key.isidentifier()
