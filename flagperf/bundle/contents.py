"""Selects the files of a run that a bundle holds, and hides the secrets in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flagperf.config.rules.secrets import read_secret
from flagperf.config.schema.cluster import Secret
from flagperf.contract.build import build
from flagperf.contract.regular import below
from flagperf.errors import ConfigError
from flagperf.secret import HIDDEN, Mask, is_secret, without_values
from flagperf.user import user_path

STATEMENT, ENVELOPE = "statement.json", "statement.dsse.json"  # of a bundle; an unpacked bundle is a run's folder, too
CHECKPOINTS = "checkpoint"  # folder of a round


def files(run: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of every file of a run that a bundle holds, sorted by name.

    Checkpoints are left out: they are large, and no figure comes from them. Links and hidden files are left out, too.
    """
    paths = (Path(entry.path) for entry in below(run) if entry.is_file(follow_symlinks=False))
    names = {path.relative_to(run).as_posix(): path for path in paths if _belongs(path.relative_to(run))}
    for name in sorted(names):
        if name not in (STATEMENT, ENVELOPE):
            yield name, names[name]


def _belongs(path: Path) -> bool:
    return CHECKPOINTS not in path.parts and not any(part.startswith(".") for part in path.parts)


class Hiding:
    """Removes secrets from files: the values of secret variables, and logins in URLs.

    A variable is secret because of its name, or because the cluster's file lists it. The run hid the values that its
    own shell knew. The shell that makes the bundle may know other values, so all files are searched again.
    """

    def __init__(self, configs: Iterable[Mapping[str, Any]]) -> None:
        declared: dict[str, Any] = {}
        for config in configs:
            cluster: Any = config.get("cluster")
            secrets = cluster.get("secrets") if isinstance(cluster, Mapping) else None
            declared |= {str(name): source for name, source in secrets.items()} if isinstance(secrets, Mapping) else {}
        self._named = tuple(declared)
        values = [value for name, value in os.environ.items() if is_secret(name) or name in declared]
        self._mask = Mask([*values, *_values(declared)])

    def hide(self, data: bytes) -> tuple[bytes, int]:
        """The data without secrets, and the number of values that this call has hidden."""
        lines = self._mask.sub(data).decode("utf-8", "surrogateescape").splitlines(keepends=True)
        hidden = "".join(without_values(line, self._named) for line in lines).encode("utf-8", "surrogateescape")
        return hidden, hidden.count(HIDDEN.encode()) - data.count(HIDDEN.encode())


def _values(named: Mapping[str, Any]) -> Iterator[str]:
    """The values of a cluster's secrets that can be read on this machine now."""
    for name, source in named.items():
        key = f"cluster.secrets.{name}"
        with suppress(ConfigError):
            secret = build(Secret, source, key, lambda _: "config.yaml")
            is_file = secret.file is not None and user_path(secret.file).is_file()  # a pipe or a device has no end
            if secret.variable is not None or is_file:
                yield read_secret(secret, key, lambda _: "config.yaml")
