"""Reads the PerfLog lines of a round's ranks. Their format: docs/perflog.md."""

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
LONGEST = 1 << 20  # bytes of a line that counts
MARKS = 8  # of a line that are looked at
NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}  # what JSON has no number for


@dataclass(frozen=True)
class Event:
    """One PerfLog line."""

    name: str
    value: Mapping[str, Any]
    seconds: float  # since the epoch, by the clock of its node


@dataclass(frozen=True)
class Rank:
    """The log of one rank."""

    number: int
    node: Path  # folder of its node
    events: tuple[Event, ...]
    unread: int = 0  # lines of PerfLog that are torn, or too long

    def all(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]

    def last(self, name: str) -> Event:
        found = self.all(name)
        if not found:
            raise UnknownError(f"rank {self.number} logged no {name}")
        return found[-1]

    @property
    def finished(self) -> Mapping[str, Any]:
        return self.last("FINISHED").value

    @property
    def measured(self) -> Mapping[str, Any]:
        """What this rank itself measured, as FINISHED lists it."""
        own = [one for one in self.finished.get("ranks") or () if one.get("rank") == self.number]
        if len(own) != 1:
            raise UnknownError(f"FINISHED lists no figures of rank {self.number}")
        return dict(own[0])


@dataclass(frozen=True)
class Round:
    """One round of a job: what it states and what its ranks logged."""

    folder: Path
    stated: Mapping[str, Any]  # result.json; empty where there is none
    config: Mapping[str, Any]
    asked: tuple[str, ...]  # keys that the user changed
    ranks: tuple[Rank, ...]

    @property
    def number(self) -> int:
        return int(self.folder.name.removeprefix("round"))

    @property
    def seed(self) -> int:
        """That the ranks were to read: each round has its own, unless `repeat_seed` is "same"."""
        return int(self.config["seed"]) + (self.number - 1 if self.config.get("repeat_seed") == "own" else 0)

    @property
    def figures(self) -> Mapping[str, Any]:
        """Those of result.json, which are the fields of FINISHED."""
        found = self.stated.get("values")
        return found if isinstance(found, dict) else {}

    @cached_property
    def measured(self) -> list[Mapping[str, Any]]:
        """What every rank measured, each from its own log."""
        if not self.ranks:
            raise UnknownError("no log of a rank is there")
        world = int(self.config["nnodes"]) * int(self.config["nproc"])
        if len(self.ranks) != world or [rank.number for rank in self.ranks] != list(range(world)):
            raise UnknownError(f"there are logs of {len(self.ranks)} of {world} ranks")
        return [rank.measured for rank in self.ranks]


def read_round(folder: Path, config: Mapping[str, Any], asked: tuple[str, ...]) -> Round:
    """Read a round. A file that cannot be read counts as missing."""
    pattern = re.compile(r"rank(\d+)\.out\.log")
    logs = [(int(match[1]), path) for path in folder.glob("*/rank*") if (match := pattern.fullmatch(path.name))]
    ranks = tuple(Rank(number, path.parent, *_events(path)) for number, path in sorted(logs))
    return Round(folder, read_json(folder / "result.json"), config, asked, ranks)


def read_json(path: Path) -> Mapping[str, Any]:
    """A file of results; empty where it is not there or no such file."""
    try:
        found = _with_numbers(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_yaml(path: Path) -> Any:
    """A file of configuration; None where it is not there or cannot be read."""
    try:
        return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None


def _events(path: Path) -> tuple[tuple[Event, ...], int]:
    """The events of a log, and how many lines of it cannot be read."""
    with path.open("rb") as file:
        found = [_event_of(line) for line in file if MARK in line or len(line) > LONGEST]
    events = tuple(event for event in found if event is not None)
    return events, len(found) - len(events)


def _event_of(line: bytes) -> Event | None:
    """The event that begins at one of the marks of a line: the first may be a half line of a killed process."""
    texts = line.split(MARK)[1 : 1 + MARKS] if len(line) <= LONGEST else []
    starts = (MARK.join(texts[number:]) for number in range(len(texts)))
    return next((event for text in starts if (event := _event(text)) is not None), None)


def _event(text: bytes) -> Event | None:
    """None: a torn line."""
    try:
        record = _with_numbers(json.loads(text))
        value = record.get("value", {})
        if not isinstance(value, dict) or not isinstance(record["event"], str):
            return None
        return Event(record["event"], value, record["metadata"]["time_ms"] / 1000)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _with_numbers(value: Any) -> Any:
    """The numbers that JSON cannot hold, in place of their names."""
    if isinstance(value, dict):
        return {key: _with_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_numbers(one) for one in value]
    return NUMBERS.get(value, value) if isinstance(value, str) else value
