"""The words after a verb that takes files or folders, and then options as key=value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from flagperf.cli.verbs import usage
from flagperf.errors import ConfigError, nearest


def paths_and_options(verb: str, arguments: Sequence[str], known: Collection[str]) -> tuple[list[Path], dict[str, str]]:
    """Split them. Raises ConfigError for an option that the verb does not know."""
    paths = [Path(argument).expanduser() for argument in arguments if not _is_option(argument)]
    given = dict(argument.split("=", 1) for argument in arguments if _is_option(argument))
    for key in given:
        if key not in known:
            raise ConfigError(f"unknown option of {verb}", given=key, allowed=nearest(key, known), advice=usage(verb))
    return paths, given


def expect(verb: str, paths: Sequence[Path], count: int, what: str) -> None:
    """Raise ConfigError unless so many paths are given; `what` they are, in words."""
    if len(paths) != count:
        given = " ".join(map(str, paths)) or '""'
        raise ConfigError(f"{verb} takes {what}", given=given, advice=usage(verb))


def _is_option(argument: str) -> bool:
    key, equals, _ = argument.partition("=")
    return bool(equals) and key.isidentifier()
