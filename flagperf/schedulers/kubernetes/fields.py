"""The fields that Kubernetes knows below a pod's spec: pod_fields.json, from the schema that Kubernetes publishes.

The package with the schema has 70 MB, the names have 8 KB. Only tests need the package, to compare it with the file.
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
        given: an object of Kubernetes in a user's file.
        kind: of the object: POD_SPEC, SECURITY or TOLERATION.
        key: of the object in the configuration.
        where: key → the file that set the key.
    """
    for path, name, known_names in _unknown(given, kind, key, _kinds()):
        raise ConfigError(
            f"Kubernetes {VERSION} does not know this field",
            where=where(path),
            key=path,
            given=name,
            allowed=nearest(name, known_names),
            advice="write the field as Kubernetes' reference of a pod has it, or leave it out",
        )


def _unknown(
    value: Any, kind: str, key: str, kinds: Mapping[str, Mapping[str, str | None]]
) -> Iterator[tuple[str, str, Mapping[str, str | None]]]:
    """Key and name of each unknown field, and the known names."""
    if isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _unknown(item, kind, f"{key}[{number}]", kinds)
    elif isinstance(value, Mapping):
        known_names = kinds[kind]
        for name, item in value.items():
            if name not in known_names:
                yield f"{key}.{name}", str(name), known_names
            elif (item_kind := known_names[name]) is not None:
                yield from _unknown(item, item_kind, f"{key}.{name}", kinds)


def _kinds() -> Mapping[str, Mapping[str, str | None]]:
    """Kind of object → name of each field → kind of the field's value; None: no object."""
    kinds: Mapping[str, Mapping[str, str | None]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return kinds
