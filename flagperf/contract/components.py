"""Makes the objects that `_target_` entries describe: parts of a training in ranks, report writers in the launcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flagperf.errors import ConfigError, FlagperfError


def component(config: Mapping[str, Any], key: str, *arguments: Any, **named: Any) -> Any:
    """The object that `config[key]` describes, or None where it is null. `arguments` come before the configured ones.

    Raises:
        ConfigError: the `_target_` does not exist.
        FlagperfError: from the component itself.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate

    node = config.get(key)
    if node is None:
        return None
    try:
        return instantiate({**node, "_partial_": True}, _convert_="all")(*arguments, **named)
    except InstantiationException as error:
        if isinstance(error.__cause__, FlagperfError):
            raise error.__cause__ from None
        if "Error locating target" in str(error):
            module, _, name = node["_target_"].rpartition(".")
            raise ConfigError(
                "no such class or function",
                where="config.yaml",
                key=f"{key}._target_",
                given=node["_target_"],
                advice=f"python -c 'from {module} import {name}' says why",
            ) from error
        raise


def preload_hydra() -> None:
    """Import Hydra now, so that the first component does not wait for the import."""
    import hydra.utils  # noqa: F401


def class_at(path: str) -> type:
    """The class that a dotted path names."""
    from hydra.utils import get_class

    return get_class(path)


def object_at(path: str) -> Any:
    """The class or function that a dotted path names."""
    from hydra.utils import get_object

    return get_object(path)


def make_writer(key: str, node: Any, kind: str, page: str, *arguments: Any) -> Any:
    """Make the object with a method `write` that an entry of a list in the configuration describes.

    Args:
        key: the dotted key of the entry, for messages.
        node: the entry, a mapping with `_target_` and its arguments.
        kind: kind of the object, for messages.
        page: the page that explains it.
        arguments: come before the configured ones.

    Raises:
        ConfigError: the entry names no class, or one without `write`, or the object cannot be made.
    """

    def refused(problem: str, advice: str | None = None) -> ConfigError:
        allowed = f"a mapping with the class of a {kind} as _target_, and its arguments"
        return ConfigError(problem, where="config.yaml", key=key, given=node, allowed=allowed, advice=advice)

    if not isinstance(node, Mapping) or not isinstance(node.get("_target_"), str):
        raise refused(f"this names no {kind}")
    try:
        made = component({key: node}, key, *arguments)
    except FlagperfError:
        raise
    except Exception as error:
        raise refused(f"the {kind} cannot be made", f"{type(error).__name__}: {error}") from error
    if not callable(getattr(made, "write", None)):
        raise refused(f"this is no {kind}", f"{page} says what a {kind} is")
    return made


def class_path(instance: Any) -> str:
    """Module and name of an object's class."""
    return f"{type(instance).__module__}.{type(instance).__qualname__}"


def targets(node: Any) -> Iterator[str]:
    """All `_target_` entries below a node."""
    if isinstance(node, Mapping):
        if isinstance(node.get("_target_"), str):
            yield node["_target_"]
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from targets(value)
