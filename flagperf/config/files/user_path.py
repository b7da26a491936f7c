"""A path as a user writes it, on the command line or in a file."""

from __future__ import annotations

from pathlib import Path

from flagperf.errors import ConfigError


def user_path(text: str, **said: str) -> Path:
    """The path. Raises ConfigError, with what is said of it, for a "~name" where there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError("no such user", given=text, advice="a file of this name is ./" + text, **said) from None
