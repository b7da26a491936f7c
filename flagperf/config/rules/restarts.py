"""Refuses restarts without checkpoints: each restart would start from the beginning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.build import Where
from flagperf.errors import ConfigError

KEY = "restarts"


def check_restarts(config: Mapping[str, Any], where: Where) -> None:
    """Refuse a configuration with restarts that writes no checkpoints, with a ConfigError."""
    if config[KEY] and config["checkpoint_freq"] is None:
        raise ConfigError(
            "a restart continues from a checkpoint, but this run writes no checkpoint",
            where=where(KEY),
            key=KEY,
            given=config[KEY],
            advice="checkpoint_freq=N writes one every N optimizer steps",
        )
