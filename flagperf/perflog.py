"""PerfLog: the event log of a training process. The one definition of the format.

One event is one line::

    [PerfLog] {"event": "STEP_END", "value": {...}, "metadata": {"file": ..., "lineno": ..., ...}}

Launcher and trainer share this file and config.yaml, nothing else.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

PREFIX = "[PerfLog] "

EVENTS = (
    "SUBMIT_INFO",
    "INIT_START",
    "BUILT",
    "INIT_EVALUATION",
    "INIT_END",
    "TRAIN_START",
    "EPOCH_BEGIN",
    "STEP_BEGIN",
    "STEP_END",
    "EVALUATE",
    "EPOCH_END",
    "HEARTBEAT",
    "TRAIN_END",
    "FINISHED",
)

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}  # JSON allows them, line readers do not


@dataclass(frozen=True)
class Event:
    """One PerfLog line.

    `value` holds plain JSON values; a float that JSON cannot hold (NaN, infinity) travels as the
    string "nan", "inf" or "-inf" and comes back as a float.
    """

    event: str
    value: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    lineno: int = 0
    time_ms: int = 0
    rank: int = 0

    def line(self) -> str:
        """The text of this event, without a line end."""
        if self.event not in EVENTS:
            raise ValueError(f"unknown PerfLog event {self.event!r}, one of: {', '.join(EVENTS)}")
        body: dict[str, Any] = {"event": self.event}
        if self.value:
            body["value"] = self.value
        body["metadata"] = {"file": self.file, "lineno": self.lineno, "time_ms": self.time_ms, "rank": self.rank}
        try:
            text = _JSON.encode(body)
        except (ValueError, TypeError):
            text = _JSON.encode(body | {"value": encode(self.value)})
        return PREFIX + (text if text.isascii() else text.translate(_LINE_ENDS))


def parse(line: str) -> Event | None:
    """Read one line of a log: an Event, or None for ordinary output and for a torn PerfLog line."""
    start = line.find(PREFIX)
    while start >= 0:
        event = _event(line[start + len(PREFIX) :])
        if event is not None:
            return event
        start = line.find(PREFIX, start + 1)  # what came before may be the half line of a killed process
    return None


def _event(text: str) -> Event | None:
    try:
        body = json.loads(text)
        value, metadata = body.get("value", {}), body["metadata"]
        if not isinstance(value, dict):
            return None
        return Event(
            event=body["event"],
            value=decode(value),
            file=metadata["file"],
            lineno=metadata["lineno"],
            time_ms=metadata["time_ms"],
            rank=metadata["rank"],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Sink(Protocol):
    """Another format beside PerfLog, written from the same events."""

    def write(self, event: Event) -> None:
        """Take one event."""


class PerfLog:
    """Writes events of one rank, each with one write(2), so that lines of ranks never mix.

    `sinks` get every event too.
    """

    def __init__(self, rank: int, fd: int = 1, sinks: Sequence[Sink] = ()) -> None:
        self.rank = rank
        self.fd = fd
        self.sinks = sinks
        self.written = time.time()  # when the last line was written

    def log(
        self, event: str, value: Mapping[str, Any] | None = None, *, time_ms: int | None = None, stacklevel: int = 1
    ) -> None:
        """Write one event.

        Args:
            time_ms: wall-clock milliseconds of the event; None: now.
            stacklevel: which caller the metadata names; 2 in a function that logs for its own caller.
        """
        caller = sys._getframe(stacklevel)
        self.written = time.time()
        now = int(self.written * 1000) if time_ms is None else time_ms
        entry = Event(event, value or {}, caller.f_code.co_filename, caller.f_lineno, now, self.rank)
        data = (entry.line() + "\n").encode(errors="backslashreplace")  # lone surrogates become JSON's own escapes
        while data:
            data = data[os.write(self.fd, data) :]
        for sink in self.sinks:
            sink.write(entry)


def encode(value: Any) -> Any:
    """What JSON can hold of a value: mappings, lists, and non-finite floats as "nan", "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decode(value: Any) -> Any:
    """The value that `encode` was given, read back."""
    if isinstance(value, dict):
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item) for item in value]
    if value in ("nan", "inf", "-inf"):
        return float(value)
    return value
