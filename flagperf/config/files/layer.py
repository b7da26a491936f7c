"""A configuration as a plain tree. Trees are merged by OmegaConf's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from flagperf.config.files.references import MISSING, NotPlainError, at, is_reference, resolved
from flagperf.config.files.user_files import FILES, not_yaml
from flagperf.contract.build import Where
from flagperf.contract.leaves import Leaves, leaves
from flagperf.errors import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

Tree = Mapping[str, Any]  # never changed, because layers share parts


class Choice(NamedTuple):
    """An option of a group, such as vendor and nvidia; or several options."""

    group: str
    option: str | tuple[str, ...]
    package: str | None = None  # key for the values of the option; None: by its file
    added: bool = False  # at the end of the defaults list of config.yaml


class Layer:
    """One composition: the configuration, and the chosen option of each group."""

    def __init__(self, tree: Tree, choices: Mapping[str, str]) -> None:
        self.tree = tree
        self.choices = choices

    def get(self, key: str) -> Any:
        """The value of a dotted key, with interpolations resolved; None for a missing key."""
        try:
            value = resolved(at(self.tree, key), self.tree)
        except KeyError:
            return None
        except NotPlainError:
            return self._selected(key)
        return None if value == MISSING else value

    def with_values(self, values: Mapping[str, Any]) -> Layer:
        """This layer with further values. Mappings are merged."""
        tree = self.tree
        for key, value in values.items():
            try:
                tree = _with_value(tree, key.split("."), value)
            except NotPlainError:
                tree = _updated(tree, key, value)
        return Layer(tree, self.choices)

    def with_part(self, key: str, other: Layer) -> Layer:
        """This layer with a top-level key of another layer."""
        return Layer({**self.tree, key: other.tree[key]}, {**self.choices, key: other.choices[key]})

    def with_key(self, key: str, other: Layer) -> Layer:
        """This layer with a dotted key of another layer, with unresolved ${…}."""
        return Layer(_replaced(self.tree, key.split("."), at(other.tree, key)), self.choices)

    def resolved(self, where: Where | None = None) -> dict[str, Any]:
        """A copy of the whole configuration without interpolations. `where` names the file in a message."""
        try:
            tree: dict[str, Any] = resolved(self.tree, self.tree)
        except NotPlainError:
            from omegaconf import OmegaConf

            with config_errors(where):
                tree = OmegaConf.to_container(self._config, resolve=True)  # type: ignore[assignment]
        return tree

    @cached_property
    def leaves(self) -> Leaves:
        """Dotted key → value as written."""
        return leaves(self.tree)

    @cached_property
    def _config(self) -> DictConfig:
        from omegaconf import OmegaConf

        return OmegaConf.create(dict(self.tree))

    def _selected(self, key: str) -> Any:
        from omegaconf import OmegaConf

        with config_errors():
            value = OmegaConf.select(self._config, key)
            return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def merged(below: Tree, above: Tree) -> Tree:
    """One tree over another: mappings are merged, any other value replaces the value below.

    Raises:
        OmegaConfBaseException: the trees do not fit.
    """
    try:
        return _merged(below, above)
    except NotPlainError:
        from omegaconf import OmegaConf

        config = OmegaConf.merge(dict(below), dict(above))
        return OmegaConf.to_container(config)  # type: ignore[return-value]  # of mappings a mapping comes


def _merged(below: Tree, above: Tree) -> Tree:
    return {**below, **{key: _over(below[key], value) if key in below else value for key, value in above.items()}}


def _over(old: Any, new: Any) -> Any:
    if isinstance(new, str) and new == MISSING:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return _merged(old, new)
    if isinstance(new, (dict, list)) and (
        is_reference(old) or (isinstance(old, (dict, list)) and type(old) is not type(new))
    ):
        raise NotPlainError(new)
    return new


def _with_value(tree: Tree, parts: Sequence[str], value: Any) -> Tree:
    """The tree with a value, and with missing parent mappings."""
    name, *further = parts
    old = tree.get(name)
    if (
        not name
        or "[" in name
        or (further and (isinstance(old, list) or is_reference(old)))
        or is_reference(str(value))
    ):
        raise NotPlainError(name)
    if further:
        return {**tree, name: _with_value(old if isinstance(old, dict) else {}, further, value)}
    return {**tree, name: _over(old, value) if isinstance(value, (dict, list)) else value}


def _updated(tree: Tree, key: str, value: Any) -> Tree:
    """The tree with a value set by OmegaConf, which knows indices and references."""
    from omegaconf import OmegaConf

    with config_errors():
        config = OmegaConf.create(dict(tree))
        OmegaConf.update(config, key, value, force_add=True)
        return OmegaConf.to_container(config)  # type: ignore[return-value]


def _replaced(tree: Tree, parts: Sequence[str], value: Any) -> Tree:
    name, *further = parts
    return {**tree, name: _replaced(tree[name], further, value) if further else value}


@contextmanager
def config_errors(where: Where | None = None) -> Iterator[None]:
    """Turn errors of Hydra, OmegaConf and YAML about files into ConfigError."""
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except yaml.YAMLError as error:
        raise not_yaml(error) from None
    except MissingConfigException as error:
        allowed = ", ".join(error.options or ()) or None
        problem = "a file chooses an option that does not exist"
        raise ConfigError(problem, where=FILES, given=error.missing_cfg_file, allowed=allowed) from None
    except OmegaConfBaseException as error:
        key = error.full_key
        raise ConfigError(str(error).splitlines()[0], where=where(key) if where and key else FILES, key=key) from None
    except RecursionError:
        raise ConfigError("files include each other without end", where=FILES) from None
    except (HydraException, OSError, ValueError) as error:
        lines = (str(error) or str(error.__cause__)).splitlines()
        problem = " ".join(line for line in lines if not re.match(r"\s*(full_key|object_type)", line))
        raise ConfigError(problem, where=FILES) from None
