"""Which fields Kubernetes knows below a pod's spec: pod_fields.json, taken from the schema that it publishes.

The package with that schema has 70 MB, the names have 8 KB: the tests need the package, and hold the file against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError, nearest

VERSION = "1.37"  # of Kubernetes, whose fields these are
POD_SPEC, SECURITY, TOLERATION = "PodSpec", "SecurityContext", "Toleration"


def check_fields(given: Any, kind: str, key: str, where: Callable[[str], str]) -> None:
    """Refuse a field that Kubernetes does not know.

    Args:
        given: what a user's file says of an object, as Kubernetes has it.
        kind: of the object: POD_SPEC, SECURITY or TOLERATION.
        key: where this stands in the configuration.
        where: the file in which a key is set.
    """
    for path, name, known in _unknown(given, kind, key, _kinds()):
        raise ConfigError(
            f"Kubernetes {VERSION} does not know this field",
            where=where(path),
            key=path,
            given=name,
            allowed=nearest(name, known),
            advice="write the field as Kubernetes' reference of a pod has it, or leave it out",
        )


def _unknown(
    given: Any, kind: str, key: str, kinds: Mapping[str, Mapping[str, str | None]]
) -> Iterator[tuple[str, str, Mapping[str, str | None]]]:
    """The key and the name of each field that is not known, and the names that are."""
    if isinstance(given, (list, tuple)):
        for number, one in enumerate(given):
            yield from _unknown(one, kind, f"{key}[{number}]", kinds)
    elif isinstance(given, Mapping):
        known = kinds[kind]
        for name, value in given.items():
            if name not in known:
                yield f"{key}.{name}", str(name), known
            elif (below := known[name]) is not None:
                yield from _unknown(value, below, f"{key}.{name}", kinds)


def _kinds() -> Mapping[str, Mapping[str, str | None]]:
    """Each kind of object below a pod's spec: the names of its fields, and the kind of those that are objects."""
    kinds: Mapping[str, Mapping[str, str | None]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return kinds
