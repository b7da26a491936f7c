"""Makes the parts of a training from their `_target_` entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.errors import ConfigError, FlagperfError


def component(config: Mapping[str, Any], key: str, *arguments: Any) -> Any:
    """The object that `config[key]` describes, or None where it is null. `arguments` come before the configured ones.

    Raises:
        ConfigError: the `_target_` does not exist; or what the component itself raises.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate

    node = config.get(key)
    if node is None:
        return None
    try:
        return instantiate({**node, "_partial_": True}, _convert_="all")(*arguments)
    except InstantiationException as error:
        if isinstance(error.__cause__, FlagperfError):
            raise error.__cause__ from None
        if "Error locating target" in str(error):
            raise ConfigError(
                "no such class or function",
                where="config.yaml",
                key=f"{key}._target_",
                given=node["_target_"],
                advice=str(error.__cause__ or error),
            ) from error
        raise
