"""Settings that the loop of a framework does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.settings import MeshSizes, Parallel, Settings
from flagperf.errors import ConfigError

# Setting → the only value that it may have, where only PyTorch's loop has it.
PYTORCH_ONLY: Mapping[str, Any] = {
    "compile": False,
    "memory_format": "contiguous_format",
    "attention_kernels": [],
    "float8_modules": None,
    "activation_checkpointing": False,
    "sync_bn": False,
    "lr_interval": "step",
    "synthetic": False,
    "parallel": Parallel(None, MeshSizes(-1, 1, 1)),
    "profile": False,
}


def check_supported(settings: Settings, only: Mapping[str, Any], framework: str) -> None:
    """Refuse settings that a loop does not have, with a ConfigError.

    Args:
        only: those settings → the only value that they may have; a moving average of the weights is refused, too.
        framework: its title, for the message.
    """
    given = {**{name: getattr(settings, name) for name in only}, "ema.decay": settings.ema.decay}
    for name, allowed in {**only, "ema.decay": None}.items():
        if given[name] != allowed:
            raise ConfigError(
                f"there is no such setting with {framework}",
                where="config.yaml",
                key=name,
                given=given[name],
                allowed="null" if allowed is None else str(allowed).lower(),
            )
