"""Settings that a framework does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.settings import Parallel, Settings
from flagperf.errors import ConfigError

# Settings that only PyTorch has → the only value that they may have elsewhere.
PYTORCH_ONLY: Mapping[str, Any] = {
    "compile": False,
    "memory_format": "contiguous_format",
    "attention_kernels": [],
    "float8_modules": None,
    "activation_checkpointing": False,
    "sync_bn": False,
    "lr_interval": "step",
    "synthetic": False,
    "parallel": Parallel.of({"_target_": None, "mesh": {"dp_replicate": -1}}),
    "profile": False,
    "initialisation": "in_order",
    "random_numbers": "device",
    "checkpoint_in_background": False,
    "checksum_freq": None,
}


def check_supported(settings: Settings, fixed: Mapping[str, Any], framework: str) -> None:
    """Refuse settings that a framework does not have, with a ConfigError. It has no ema and no adapters.

    Args:
        fixed: settings that it does not have → the only value that they may have.
        framework: its title, for the message.
    """
    parts = {"ema.decay": settings.ema.decay, "adapter.modules": settings.adapter.modules}
    given = {**{name: getattr(settings, name) for name in fixed}, **parts}
    for name, allowed in {**fixed, "ema.decay": None, "adapter.modules": []}.items():
        if given[name] != allowed:
            raise ConfigError(
                f"there is no such setting with {framework}",
                where="config.yaml",
                key=name,
                given=given[name],
                allowed="null" if allowed is None else str(allowed).lower(),
            )
