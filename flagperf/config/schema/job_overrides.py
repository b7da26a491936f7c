"""The overrides of one job, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class JobOverrides:
    """The parsed overrides of one job."""

    choices: Mapping[str, str]  # group → option
    experiments: tuple[str, ...]
    framework: str | None  # None: the framework of the case's file
    values: Mapping[str, Any]  # dotted key → value
    added: frozenset[str]  # keys written with a plus, which need not exist
    swept: Mapping[str, str]  # key → value as text
    experiment_of: Mapping[str, str]  # key → the experiment whose sweep or suite has the value
