"""Weights of a file that must be those of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.errors import ConfigError


def check_fit(path: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse weights whose names or shapes are not those that the network wants, with a ConfigError.

    Args:
        path: of the file, for the message.
        given, wanted: tensors or arrays by name, with `shape`.
    """
    misfits = [
        *(f"missing: {name}" for name in wanted if name not in given),
        *(f"not in the network: {name}" for name in given if name not in wanted),
        *(
            f"shape of {name}: {list(given[name].shape)}, the network has {list(wanted[name].shape)}"
            for name in wanted
            if name in given and list(given[name].shape) != list(wanted[name].shape)
        ),
    ]
    if misfits:
        rest = f" … and {len(misfits) - 5} more" if len(misfits) > 5 else ""
        raise ConfigError(
            "the weights do not fit the network",
            where=path,
            key="init_checkpoint",
            given="; ".join(misfits[:5]) + rest,
            advice="use the checkpoint that belongs to this case and size",
        )
