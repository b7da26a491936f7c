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
            allowed = nearest(key, known) if known else None
            raise ConfigError(f"unknown option of {verb}", given=key, allowed=allowed, advice=usage(verb))
    return paths, given


def runs_and_overrides(arguments: Sequence[str], own: Collection[str]) -> tuple[list[Path], dict[str, str], list[str]]:
    """Split words into folders of runs, the verb's own options, and overrides of the configuration.

    Folders stand after `runs=`, between commas, and as words of their own.
    """
    paths = [Path(word).expanduser() for word in arguments if not _is_option(word)]
    given = dict(word.split("=", 1) for word in arguments if word.partition("=")[0] in own)
    named = [word.removeprefix("runs=").split(",") for word in arguments if word.startswith("runs=")]
    overrides = [word for word in arguments if _is_option(word) and word.partition("=")[0] not in (*own, "runs")]
    return [Path(path).expanduser() for paths_ in named for path in paths_] + paths, given, overrides


def expect(verb: str, paths: Sequence[Path], count: int, what: str) -> None:
    """Raise ConfigError unless so many paths are given; `what` they are, in words."""
    if len(paths) != count:
        given = " ".join(map(str, paths)) or '""'
        raise ConfigError(f"{verb} takes {what}", given=given, advice=usage(verb))


def _is_option(argument: str) -> bool:
    key, equals, _ = argument.partition("=")
    return bool(equals) and key.isidentifier()
