"""Reads a path of the command line or of a file."""

from __future__ import annotations

from pathlib import Path

from flagperf.errors import ConfigError


def user_path(text: str, **details: str) -> Path:
    """The path without ~. Raises ConfigError, with these details, for the "~name" of an unknown user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError("no such user", given=text, advice="a file of this name is ./" + text, **details) from None
