"""Configuration files for Hydra, each parsed once however many jobs are composed: parsing is most of a composition."""

from __future__ import annotations

import copy
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult

SCHEME = "flagperf"  # of the folders that this source reads: flagperf:///home/me/conf


class ReadOnce(FileConfigSource):
    """Hydra's own source of files; what is read stays until the file changes."""

    _read: dict[tuple[str, int, int], ConfigResult] = {}  # path, time and size of a file → what it holds  # noqa: RUF012

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        path = Path(self.path, self._normalize_file_name(config_path))
        if not path.is_file():
            return super().load_config(config_path)  # which says what is missing
        found = path.stat()
        state = (str(path), found.st_mtime_ns, found.st_size)
        if state not in self._read:
            self._read[state] = super().load_config(config_path)
        return copy.deepcopy(self._read[state])  # Hydra changes what it gets


def register() -> None:
    """Make Hydra know the source."""
    Plugins.instance().register(ReadOnce)


def place(folder: Path) -> str:
    """A folder, as an entry of Hydra's search path."""
    return f"{SCHEME}://{folder}"
