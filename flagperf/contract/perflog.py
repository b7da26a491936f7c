"""PerfLog: the event log of a training process. The one definition of the format.

One event is one line::

    [PerfLog] {"event": "STEP_END", "value": {...}, "metadata": {"file": ..., "lineno": ..., ...}}

Launcher and trainer share this file and config.yaml, nothing else.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from flagperf.contract.regular import DEEPEST, LONGEST_NUMBER

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
    "CHECKSUMS",
    "EVALUATE",
    "EPOCH_END",
    "HEARTBEAT",
    "WAITING",
    "TRAIN_END",
    "PROBE",
    "FABRIC",
    "LINKS",
    "OPERATOR",
    "PROOF",
    "LOCATED",
    "FINISHED",
)

TRIES = 8  # PREFIXes in a line that are tried; the first may belong to the half line of a killed process
LATEST = 253402300799999  # ms; the last moment of the year 9999

LARGEST_NUMBER = 10**LONGEST_NUMBER

_STARTS = re.compile(re.escape(PREFIX))
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
            text = _JSON.encode({**body, "value": encode(self.value)})
        return PREFIX + (text if text.isascii() else text.translate(_LINE_ENDS))


def parse(line: str) -> Event | None:
    """Read one line of a log: an Event, or None for ordinary output and for a PerfLog line that cannot be read.

    A log may hold anything, since user code of a rank may print. An event that is returned fits the protocol.
    """
    if PREFIX not in line:  # nearly every line of a long log
        return None
    starts = itertools.islice(_STARTS.finditer(line), TRIES)
    return next((event for start in starts if (event := _event(line[start.end() :])) is not None), None)


def _event(text: str) -> Event | None:
    try:
        body = json.loads(text)
        metadata = body["metadata"]
        event = Event(
            event=body["event"],
            value=decode(body.get("value", {})),
            file=metadata["file"],
            lineno=metadata["lineno"],
            time_ms=metadata["time_ms"],
            rank=metadata["rank"],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return event if fits(event) else None


def fits(event: Event) -> bool:
    """Whether an event that was read has the fields and types that the protocol gives it."""
    if event.event not in EVENTS or not isinstance(event.value, dict) or not isinstance(event.file, str):
        return False
    if not all(_is_count(count) for count in (event.lineno, event.time_ms, event.rank)) or event.time_ms > LATEST:
        return False
    if any(name not in event.value for name in REQUIRED.get(event.event, ())):
        return False
    fields = FIELDS.get(event.event)
    return fields is None or all(fields.get(name, _is_number)(value) for name, value in event.value.items())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: object) -> bool:
    """A figure, or null where it is not known."""
    return value is None or (isinstance(value, (int, float)) and (isinstance(value, float) or abs(value) < 2**63))


def _is_seconds(value: object) -> bool:
    """A known time: the launcher computes with it at once."""
    return value is not None and _is_number(value) and 0 <= value < math.inf  # type: ignore[operator]


def _is_known_text(value: object) -> bool:
    return isinstance(value, str)


def _is_epoch(value: object) -> bool:
    return _is_count(value) and value != 0


def _is_list(value: object, *, of: Callable[[object], bool]) -> bool:
    return isinstance(value, list) and all(map(of, value))


def _is_size(value: object) -> bool:
    """A figure above zero: readers divide by it."""
    return value is not None and _is_number(value) and 0 < value < math.inf  # type: ignore[operator]


def _is_link(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_suspect(value: object) -> bool:
    """An end whose links are slow: names as text, and figures."""
    if not isinstance(value, dict) or not {"figure", "direction", "rank", "peer", "value", "others"} <= set(value):
        return False
    texts, figures = (value["figure"], value["direction"]), (value["value"], value["others"])
    ranks = [value["rank"], *([] if value["peer"] is None else [value["peer"]])]
    return all(map(_is_known_text, texts)) and all(map(_is_count, ranks)) and all(map(_is_seconds, figures))


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_texts(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(text, str) for text in value))


def _is_counts(value: object) -> bool:
    return _is_list(value, of=_is_count)


def _is_mapping(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _is_per_rank(value: object) -> bool:
    """A list with a mapping for each rank: its number, names and checksums as text, and figures."""
    texts = dict.fromkeys(("host", "loss_checksum", "parameters_checksum", "data_fingerprint"), _is_text)
    fields: Mapping[str, Callable[[object], bool]] = {**texts, "rank": _is_count}
    return isinstance(value, list) and all(
        isinstance(rank, dict) and "rank" in rank and all(fields.get(name, _is_number)(rank[name]) for name in rank)
        for rank in value
    )


def _is_software(value: object) -> bool:
    """Versions and identities by name, and the modules from elsewhere by file."""
    if not isinstance(value, dict) or not all(isinstance(part, dict) for part in value.values()):
        return False
    return all(isinstance(module, dict) for module in value.get("modules", {}).values())


def _is_switch(value: object) -> bool:
    return value is None or isinstance(value, bool)


_STEP: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("step", "epoch", "samples", "global_steps", "num_trained_samples"), _is_count),
    "end_training": _is_switch,
}
# Event → fields that it always has. Readers rely on them.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("STEP_BEGIN", "STEP_END", "EVALUATE", "CHECKSUMS"), ("step",)),
    **dict.fromkeys(("EPOCH_BEGIN", "EPOCH_END"), ("epoch",)),  # older versions logged no step at the end
    "WAITING": ("collective", "number", "ranks", "seconds"),
    "FABRIC": ("kind", "group", "ranks", "per_node", "sizes", "seconds", "reason"),
    "LINKS": ("part", "rounds", "measured", "links", "suspects"),
    "OPERATOR": ("name", "format", "shapes"),
}
# Event → field → check of its type; other fields are figures. The other events may hold anything.
FIELDS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "SUBMIT_INFO": {**dict.fromkeys(("vendor", "case", "visible_devices"), _is_text), "config": _is_mapping},
    **dict.fromkeys(("STEP_BEGIN", "STEP_END", "EVALUATE", "EPOCH_BEGIN"), _STEP),
    "EPOCH_END": {**_STEP, "epoch": _is_epoch},  # readers divide by it
    "INIT_END": {"rendezvous": _is_seconds, "resume_notes": _is_texts},
    "BUILT": {
        "device_name": _is_text,
        "software": _is_software,
        **dict.fromkeys(("network", "optimizer", "schedule", "data", "frozen"), _is_mapping),
    },
    "CHECKSUMS": {**_STEP, **dict.fromkeys(("loss", "gradients", "parameters"), _is_text)},
    "HEARTBEAT": {**_STEP, "phase": _is_text},
    "TRAIN_END": {"diverged_step": _is_count},
    "WAITING": {"collective": _is_known_text, "number": _is_count, "ranks": _is_counts, "seconds": _is_seconds},
    "PROBE": {"device": _is_text},
    "FABRIC": {
        **dict.fromkeys(("kind", "group", "reason"), _is_known_text),
        **dict.fromkeys(("ranks", "per_node"), _is_count),
        **dict.fromkeys(("sizes", "seconds"), partial(_is_list, of=_is_size)),
    },
    "LINKS": {
        "part": _is_known_text,
        **dict.fromkeys(("rounds", "measured"), _is_count),
        "links": partial(_is_list, of=_is_link),
        "suspects": partial(_is_list, of=_is_suspect),
    },
    "OPERATOR": {
        **dict.fromkeys(("name", "format", "reason"), _is_known_text),
        "shapes": partial(_is_list, of=_is_counts),
        "seconds": lambda value: value is None or _is_size(value),
    },
    "PROOF": {
        **dict.fromkeys(("other_network", "device"), _is_text),
        **dict.fromkeys(("differences", "optimizer", "versions"), _is_mapping),
        "classes": _is_texts,
    },
    "LOCATED": {**dict.fromkeys(("compared", "module", "device"), _is_text), "operator": _is_mapping},
    "FINISHED": {
        **dict.fromkeys(("throughput_unit", "stop_reason", "mfu_note", "example_note"), _is_text),
        **dict.fromkeys(("peak_memory_kind", "clock", "precision", "device_name", "frozen_checksum"), _is_text),
        "target": _is_mapping,
        "versions": _is_mapping,
        "ranks": _is_per_rank,
    },
}


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
    """A value in JSON's types: mappings, lists, and non-finite floats as "nan", "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decode(value: Any, levels: int = DEEPEST) -> Any:
    """The value that `encode` was given, read back.

    Raises:
        ValueError: it is nested deeper, or has a larger number, than anything that flagperf writes.
    """
    if isinstance(value, (dict, list)):
        if not levels:
            raise ValueError(f"nested more than {DEEPEST} levels deep")
        if isinstance(value, dict):
            return {key: decode(item, levels - 1) for key, item in value.items()}
        return [decode(item, levels - 1) for item in value]
    if isinstance(value, int) and not -LARGEST_NUMBER < value < LARGEST_NUMBER:
        raise ValueError(f"a number of more than {LONGEST_NUMBER} digits")
    if value in ("nan", "inf", "-inf"):
        return float(value)
    return value
