"""What a refusal says, for tests of composition: the message that came, and one made of its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.config.compose import compose_jobs
from flagperf.errors import ConfigError


def message(overrides: list[str], folder: Path | None = None, *, multirun: bool = False) -> str:
    """The message of the ConfigError, with {bench} for the user's folder."""
    with pytest.raises(ConfigError) as caught:
        compose_jobs(overrides, multirun=multirun, config_dirs=[folder] if folder else [])
    assert caught.value.exit_code == 2
    return str(caught.value).replace(str(folder), "{bench}")


def lines(problem: str, **fields: str) -> str:
    """A message from its parts; `do` is the advice."""
    return "\n".join([problem, *(f"  {name + ':':9}{value}" for name, value in fields.items())])
