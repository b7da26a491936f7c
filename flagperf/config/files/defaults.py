"""Finds the files of a configuration by Hydra's rules of defaults lists, in the folders of the search path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.types import Override, OverrideType, ValueType
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf
from typing_extensions import override

from flagperf.config.files.layer import Choice, Tree
from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.references import OPENS, REFERENCE
from flagperf.config.files.search_path import find, options
from flagperf.errors import ConfigError

HEADER = 512  # characters of a file in which Hydra looks for its package


class Files(ConfigRepository):
    """The files of folders; the first folder has precedence. Each file is read once."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders
        self._read: dict[str, ConfigResult | None] = {}

    def parts_of(self, choices: Sequence[Choice]) -> tuple[list[Tree], dict[str, str]]:
        """The values of each file of a configuration, lowest precedence first; and the chosen option of each group.

        Raises:
            HydraException, OmegaConfBaseException, ValueError, YAMLError: a file is wrong, or an option missing.
        """
        version.setbase("1.3")
        defaults_list = create_defaults_list(
            self, "config", list(map(_override, choices)), prepend_hydra=False, skip_missing=False
        )
        return [self._part(default) for default in defaults_list.defaults], dict(defaults_list.overrides.known_choices)  # type: ignore[arg-type]

    def parts_beside(self, name: str) -> list[Tree] | None:
        """The values of a file and of the files beside it in its defaults list; None: the list has other files."""
        try:
            defaults = create_defaults_list(self, name, [], prepend_hydra=False, skip_missing=False).defaults
        except HydraException:
            return None
        folder = name.rpartition("/")[0]
        same_folder = all(Path(default.config_path or "").parent.as_posix() == folder for default in defaults)
        return [self._part(default) for default in defaults] if same_folder else None

    @override
    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self._read:
            self._read[config_path] = self._load(config_path)
        return self._read[config_path]

    @override
    def group_exists(self, config_path: str) -> bool:
        return any((folder / config_path).is_dir() for folder in self.folders)

    @override
    def config_exists(self, config_path: str) -> bool:
        return self._find(config_path) is not None

    @override
    def get_group_options(self, group_name: str, results_filter: object = None) -> list[str]:
        return options(group_name, self.folders)

    @override
    def get_sources(self) -> list[ConfigSource]:
        return []

    def _part(self, default: ResultDefault) -> Tree:
        """The values of a file, below the key of its package."""
        result = self.load_config(default.config_path or "")
        assert result
        tree: Tree = result.config  # type: ignore[assignment]  # Hydra itself does not look at it
        for name in reversed(default.package.split(".") if default.package else ()):
            tree = {name: tree}
        return tree

    def _find(self, name: str) -> Path | None:
        return find(name.removesuffix(".yaml"), self.folders)

    def _load(self, name: str) -> ConfigResult | None:
        path = self._find(name)
        if path is None:
            return None
        file = path.stat()
        return _result(name, path, file.st_mtime_ns, file.st_size)


@lru_cache(maxsize=1024)
def _result(name: str, path: Path, _mtime_ns: int, _size: int) -> ConfigResult:
    """A file in Hydra's form: values, package and defaults list. Hydra does not change them."""
    tree = read_yaml(path)
    tree = {} if tree is None else tree
    if not isinstance(tree, dict):
        raise ConfigError("not a mapping of keys to values", where=str(path))
    _check(tree)
    config = OmegaConf.create({"defaults": tree["defaults"]} if "defaults" in tree else {})
    rules = Files(())  # for Hydra's rules, which need no folders
    defaults = rules._create_defaults_list(name, rules._extract_defaults_list(name, config))
    values = {key: value for key, value in tree.items() if key != "defaults"}
    header = ConfigSource._get_header_dict(path.read_text(encoding="utf-8")[:HEADER])
    return ConfigResult(provider="flagperf", path=str(path), config=values, header=header, defaults_list=defaults)  # type: ignore[arg-type]


def _override(choice: Choice) -> Override:
    """A choice in the form of Hydra's parser."""
    option = choice.option if isinstance(choice.option, str) else list(choice.option)
    kind = OverrideType.ADD if choice.added else OverrideType.CHANGE
    text = f"{choice.group}={option}"
    return Override(kind, choice.group, ValueType.ELEMENT, option, choice.package, text)


def _check(tree: Any) -> None:
    """Let OmegaConf raise its error for a file whose keys or values are not plain."""
    if not _is_plain(tree):
        OmegaConf.create(tree)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return value.count(OPENS) == len(REFERENCE.findall(value))
    return value is None or isinstance(value, (bool, int, float))
