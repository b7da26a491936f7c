"""Reads the file that tcap_dllogger's JSONStreamBackend writes, by its public description alone.

A line is a prefix, a space and a JSON object. The prefix is "TCAPPDLL" of tcap_dllogger, or "DLLL" of NVIDIA's
DLLogger. `type` METADATA has `metric` and `metadata`. LOG has `step` and `data`, a mapping, which tcap_dllogger writes
as the text of a Python dict with all values as texts. Lines "INFO {…}" hold other texts.

Source: the README of github.com/Tecorigin/tcap_dllogger, and github.com/NVIDIA/dllogger. This module shares nothing
with our sink.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIXES = ("TCAPPDLL ", "DLLL ")
OTHER = "INFO "
FIRST = 20  # a log has its prefix in one of so many first lines


@dataclass(frozen=True)
class Value:
    """A value of a metric in a line of the log."""

    line: int
    rank: str  # "" where the line names no rank
    name: str
    number: float


@dataclass(frozen=True)
class Log:
    """The content of a log."""

    metadata: Mapping[str, Mapping[str, Any]]  # metric → its metadata; later lines add to earlier lines
    values: tuple[Value, ...]
    broken: tuple[tuple[int, str], ...]  # line number, and its error

    def of(self, name: str) -> list[Value]:
        """All values of a metric, in the order of the lines."""
        return [value for value in self.values if value.name == name]

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics with a value, in the order of their first values."""
        return list(dict.fromkeys(value.name for value in self.values))


def is_log(path: Path) -> bool:
    """Whether one of the first lines of a file has the prefix of such a log."""
    begins = tuple(f"{prefix}{{" for prefix in PREFIXES)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return any(line.startswith(begins) for line in itertools.islice(file, FIRST))
    except OSError:
        return False


def read_log(path: Path) -> Log:
    """Read a log. Lines that cannot be read are listed in `broken`."""
    metadata: dict[str, dict[str, Any]] = {}
    values: list[Value] = []
    broken: list[tuple[int, str]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip() or line.startswith(OTHER):
            continue
        try:
            body = _body(line)
            if body["type"] == "METADATA":
                metadata.setdefault(str(body["metric"]), {}).update(body["metadata"])
            elif body["type"] == "LOG":
                values += _values(number, body["data"])
        except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            broken.append((number, f"{type(error).__name__}: {error}"))
    return Log(metadata, tuple(values), tuple(broken))


def _body(line: str) -> dict[str, Any]:
    prefix = next((prefix for prefix in PREFIXES if line.startswith(prefix)), None)
    if prefix is None:
        raise ValueError(f"it begins with {line[:12]!r}")
    body = json.loads(line.removeprefix(prefix))
    if not isinstance(body, dict):
        raise TypeError("it is no JSON object")
    return body


def _values(line: int, data: Any) -> Iterator[Value]:
    """The numbers of a LOG line. Other values, such as shapes and switches, are left out."""
    if isinstance(data, str):
        data = ast.literal_eval(data)
    if not isinstance(data, dict):
        raise TypeError("its data is no mapping")
    rank = str(data.get("rank", ""))
    for name, value in data.items():
        number = _number(value)
        if name != "rank" and number is not None:
            yield Value(line, rank, str(name), number)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
