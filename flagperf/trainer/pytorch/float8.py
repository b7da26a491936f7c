"""Linear layers that multiply in float8, by torchao; their weights stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from flagperf.errors import ConfigError

LAYER = "torchao.float8.float8_linear.Float8Linear"  # it replaces torch's linear layer


def multiply_in_float8(modules: list[Any], recipe: str, device: torch.device) -> None:
    """Let the linear layers within some modules multiply in float8. A CPU emulates it.

    Args:
        recipe: "tensorwise", a scale for each tensor; "tensorwise_gathered": so that ranks of FSDP2 gather the weights
            in float8; or "rowwise", a scale for each row: more exact and slower.

    Raises:
        ConfigError: torchao is not installed.
    """
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError as error:
        raise ConfigError(
            "float8 needs the package torchao where the ranks run",
            where="config.yaml",
            key="float8_modules",
            given=str(error),
            advice="pip install 'flagperf[float8]' there, or set it to null",
        ) from None
    name, _, gathered = recipe.partition("_")
    changes = {"emulate": device.type == "cpu", "enable_fsdp_float8_all_gather": bool(gathered)}
    config = replace(Float8LinearConfig.from_recipe_name(name), **changes)
    for module in modules:
        convert_to_float8_training(module, config=config)
