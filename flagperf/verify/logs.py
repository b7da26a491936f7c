"""Reads the PerfLog lines of a round's ranks. docs/perflog.md defines their format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from flagperf.verify.values import UnknownError

MARK = b"[PerfLog] "
LONGEST = 1 << 20  # bytes of the longest line that counts
MARKS = 8  # number of marks that are searched in one line
NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}  # JSON has no numbers for these


DEEPEST = 100  # levels of a file; later code follows them by recursion
LARGEST = 10**25  # whole numbers are smaller
_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Fast):  # type: ignore[misc]
    """Refuses YAML that is too deep, or repeats a part by its name: a few lines can stand for any size."""

    def get_single_node(self) -> Any:
        top = super().get_single_node()
        seen: set[int] = set()
        nodes = [(top, DEEPEST)] if top is not None else []
        while nodes:
            node, levels = nodes.pop()
            is_too_large = node.tag.endswith(":int") and len(node.value) >= len(str(LARGEST))
            if id(node) in seen or not levels or is_too_large:
                raise yaml.YAMLError("flagperf does not write YAML like this")
            seen.add(id(node))
            if isinstance(node.value, list):
                parts = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
                nodes += [(part, levels - 1) for part in parts]
        return top


@dataclass(frozen=True)
class Event:
    """One PerfLog line."""

    name: str
    value: Mapping[str, Any]
    seconds: float  # since the epoch, by the clock of the rank's node


@dataclass(frozen=True)
class Rank:
    """The log of one rank."""

    number: int
    node: Path  # folder of the rank's node
    events: tuple[Event, ...]
    unread: int = 0  # number of PerfLog lines that are torn or too long

    def all(self, name: str) -> list[Event]:
        """The events of one name, in the order of the log."""
        return [event for event in self.events if event.name == name]

    def last(self, name: str) -> Event:
        """The last event of one name. Raises UnknownError where the log has none."""
        events = self.all(name)
        if not events:
            raise UnknownError(f"rank {self.number} logged no {name}")
        return events[-1]

    @property
    def finished(self) -> Mapping[str, Any]:
        """The fields of the last FINISHED. Raises UnknownError where the rank logged none."""
        return self.last("FINISHED").value

    @property
    def measured(self) -> Mapping[str, Any]:
        """The figures that this rank itself measured, from the list in its FINISHED."""
        figures = [entry for entry in self.finished.get("ranks") or () if entry.get("rank") == self.number]
        if len(figures) != 1:
            raise UnknownError(f"FINISHED lists no figures of rank {self.number}")
        return dict(figures[0])


@dataclass(frozen=True)
class Round:
    """One round of a job: the figures that it states, and the logs of its ranks."""

    folder: Path
    stated: Mapping[str, Any]  # the content of result.json; empty where the file is missing
    config: Mapping[str, Any]
    changed_keys: tuple[str, ...]  # keys that the user changed
    ranks: tuple[Rank, ...]

    @property
    def number(self) -> int:
        """1 for the first round."""
        return int(self.folder.name.removeprefix("round"))

    @property
    def seed(self) -> int:
        """The seed for the ranks of this round. Rounds have different seeds, unless `repeat_seed` is "same"."""
        return int(self.config["seed"]) + (self.number - 1 if self.config.get("repeat_seed") == "own" else 0)

    @property
    def figures(self) -> Mapping[str, Any]:
        """The figures of result.json. They are the fields of FINISHED."""
        values = self.stated.get("values")
        return values if isinstance(values, dict) else {}

    @cached_property
    def measured(self) -> list[Mapping[str, Any]]:
        """The figures that each rank measured, from its own log. Raises UnknownError where a log is missing."""
        if not self.ranks:
            raise UnknownError("no rank has a log")
        world = int(self.config["nnodes"]) * int(self.config["nproc"])
        if len(self.ranks) != world or [rank.number for rank in self.ranks] != list(range(world)):
            raise UnknownError(f"there are logs of {len(self.ranks)} of {world} ranks")
        return [rank.measured for rank in self.ranks]


def read_round(folder: Path, config: Mapping[str, Any], changed_keys: tuple[str, ...]) -> Round:
    """Read a round. A file that cannot be read counts as missing."""
    pattern = re.compile(r"rank(\d+)\.out\.log")
    logs = [(int(match[1]), path) for path in folder.glob("*/rank*") if (match := pattern.fullmatch(path.name))]
    ranks = tuple(Rank(number, path.parent, *_events(path)) for number, path in sorted(logs))
    return Round(folder, read_json(folder / "result.json"), config, changed_keys, ranks)


def read_log(path: Path) -> Rank:
    """Read the log of rank 0 from a file of any name. Raises OSError where the file cannot be read."""
    return Rank(0, path.parent, *_events(path))


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; empty where the file is missing or holds anything else."""
    try:
        content = _with_numbers(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; None where the file is missing or cannot be read."""
    try:
        return yaml.load(path.read_bytes(), _Loader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None


def _events(path: Path) -> tuple[tuple[Event, ...], int]:
    """The events of a log, and the number of lines that cannot be read."""
    with path.open("rb") as file:
        parsed = [_event_of_line(line) for line in file if MARK in line or len(line) > LONGEST]
    events = tuple(event for event in parsed if event is not None)
    return events, len(parsed) - len(events)


def _event_of_line(line: bytes) -> Event | None:
    """The first event in a line that can be read. The first mark may belong to a half line of a killed process."""
    texts = line.split(MARK)[1 : 1 + MARKS] if len(line) <= LONGEST else []
    starts = (MARK.join(texts[number:]) for number in range(len(texts)))
    return next((event for text in starts if (event := _event(text)) is not None), None)


def _event(text: bytes) -> Event | None:
    """Parse one event; None where the line is torn."""
    try:
        record = _with_numbers(json.loads(text))
        value = record.get("value", {})
        if not isinstance(value, dict) or not isinstance(record["event"], str):
            return None
        return Event(record["event"], value, record["metadata"]["time_ms"] / 1000)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _with_numbers(value: Any, levels: int = DEEPEST) -> Any:
    """Replace the names "nan", "inf" and "-inf" by numbers. JSON has no numbers for them.

    Raises ValueError for content that is deeper, or has larger numbers, than all that flagperf writes.
    """
    if not levels:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {key: _with_numbers(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item, levels - 1) for item in value]
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise ValueError("a number that is too large")
    return NUMBERS.get(value, value) if isinstance(value, str) else value
