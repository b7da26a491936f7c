"""What of a run's folder goes into a bundle, and what is hidden in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flagperf.config.rules.secrets import read_secret
from flagperf.config.schema.cluster import Secret
from flagperf.errors import ConfigError
from flagperf.secret import HIDDEN, Mask, is_secret, without_values

STATEMENT, ENVELOPE = "statement.json", "statement.dsse.json"  # of a bundle; an unpacked one is a run's folder too
CHECKPOINTS = "checkpoint"  # folder of a round


def files(run: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of every file of a run that a bundle holds, by name.

    Checkpoints are left out: they are large, and no figure comes from them. So are links and hidden files.
    """
    names = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if _belongs(path.relative_to(run))}
    for name in sorted(names):
        if names[name].is_file() and not names[name].is_symlink() and name not in (STATEMENT, ENVELOPE):
            yield name, names[name]


def _belongs(path: Path) -> bool:
    return CHECKPOINTS not in path.parts and not any(part.startswith(".") for part in path.parts)


class Hiding:
    """Takes secrets out of files: values of variables whose names say so or that the cluster's file names, and logins.

    The run hid those that it knew. This looks once more, also for values that the shell knows in which the bundle
    is made.
    """

    def __init__(self, configs: Iterable[Mapping[str, Any]]) -> None:
        named: dict[str, Any] = {}
        for config in configs:
            named |= (config.get("cluster") or {}).get("secrets") or {}
        self._named = tuple(named)
        known = [value for name, value in os.environ.items() if is_secret(name) or name in named]
        self._mask = Mask([*known, *_values(named)])

    def hide(self, data: bytes) -> tuple[bytes, int]:
        """The data without secrets, and how many were hidden in it now."""
        lines = self._mask.sub(data).decode("utf-8", "surrogateescape").splitlines(keepends=True)
        hidden = "".join(without_values(line, self._named) for line in lines).encode("utf-8", "surrogateescape")
        return hidden, hidden.count(HIDDEN.encode()) - data.count(HIDDEN.encode())


def _values(named: Mapping[str, Any]) -> Iterator[str]:
    """The values of a cluster's secrets, those that can be had here and now."""
    for name, source in named.items():
        with suppress(ConfigError, TypeError):
            yield read_secret(Secret(**source), f"cluster.secrets.{name}", lambda _: "config.yaml")
