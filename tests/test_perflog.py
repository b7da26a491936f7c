"""One writer and one parser: what is written comes back, whatever it holds, and nothing else does."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from flagperf.perflog import EVENTS, PREFIX, Event, PerfLog, parse

VALUES = {
    "numbers": {"step": 7, "loss": 0.1 + 0.2, "big": 2**60, "none": None, "flag": True},
    "nested": {"config": {"list": [1, [2.5, "three"], {}], "empty": []}},
    "non-ascii": {"title": "训练 été ☃", "emoji": "🔥"},
    "line ends of every kind": {"text": "a\nb\rc\u0085d\u2028e\u2029f\x1cg\x0bh"},
    "the prefix itself": {"text": PREFIX + '{"event": "FINISHED"}'},
    "quotes and shell": {"text": "\"'`$(reboot)`'\" \\ \\n"},
    "bytes that are no text": {"path": os.fsdecode(b"/data/\xff\xfe")},
    "not finite": {"loss": math.inf, "list": [-math.inf]},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_comes_back(value: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    PerfLog(3, fd).log("EVALUATE", value, time_ms=12)
    os.close(fd)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    event = parse(lines[0])
    assert event is not None
    assert (event.event, event.value, event.time_ms, event.rank) == ("EVALUATE", value, 12, 3)
    assert event.file == __file__


def test_nan_comes_back() -> None:
    event = parse(Event("STEP_END", {"loss": math.nan, "deep": [{"x": math.nan}]}).line())
    assert event is not None
    assert math.isnan(event.value["loss"])
    assert math.isnan(event.value["deep"][0]["x"])


def test_line_is_plain_json() -> None:
    """Other languages' parsers accept it: no NaN literals, keys in the order of the protocol."""
    line = Event("STEP_END", {"loss": math.nan}, "train.py", 4, 5, 6).line()
    assert line == (
        '[PerfLog] {"event": "STEP_END", "value": {"loss": "nan"}, '
        '"metadata": {"file": "train.py", "lineno": 4, "time_ms": 5, "rank": 6}}'
    )
    assert Event("TRAIN_END").line() == (
        '[PerfLog] {"event": "TRAIN_END", "metadata": {"file": "", "lineno": 0, "time_ms": 0, "rank": 0}}'
    )


def test_mappings_of_any_kind() -> None:
    event = parse(Event("FINISHED", MappingProxyType({"target": MappingProxyType({"value": (1, 2)})})).line())
    assert event is not None
    assert event.value == {"target": {"value": [1, 2]}}


WHOLE = Event("STEP_END", {"step": 1, "loss": 2.5}).line()
NO_EVENTS = {
    "ordinary output": "step 1 loss 2.5",
    "empty": "",
    "prefix alone": PREFIX,
    "not JSON": PREFIX + "hello",
    "a list": PREFIX + "[1, 2]",
    "a number": PREFIX + "1",
    "no metadata": PREFIX + '{"event": "STEP_END"}',
    "value is no mapping": PREFIX + json.dumps({"event": "STEP_END", "value": [1], "metadata": {}}),
    **{f"torn after {length} characters": WHOLE[:length] for length in (12, 30, 60, len(WHOLE) - 1)},
}


@pytest.mark.parametrize("line", NO_EVENTS.values(), ids=NO_EVENTS.keys())
def test_is_no_event(line: str) -> None:
    assert parse(line) is None


def test_event_after_a_torn_one() -> None:
    """A killed process leaves half a line; the next writer's line follows it."""
    event = parse(WHOLE[:40] + WHOLE)
    assert event is not None
    assert event.value == {"step": 1, "loss": 2.5}


def test_event_behind_other_output() -> None:
    assert parse("12% done\r" + WHOLE + "\n") == Event("STEP_END", {"step": 1, "loss": 2.5})


def test_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown PerfLog event 'STEP', one of: SUBMIT_INFO, "):
        Event("STEP").line()


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_a_place_in_the_reference(name: str) -> None:
    reference = Path(__file__).parents[1] / "docs" / "perflog.md"
    assert name in reference.read_text(encoding="utf-8")


def test_lines_of_writers_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(rank: int) -> None:
        perflog = PerfLog(rank, fd)
        for step in range(200):
            perflog.log("STEP_BEGIN", {"step": step, "text": "x" * 500})

    writers = [threading.Thread(target=write, args=(rank,)) for rank in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    os.close(fd)
    events = [parse(line) for line in path.read_text().splitlines()]
    assert len(events) == 800
    for rank in range(4):
        steps = [event.value["step"] for event in events if event is not None and event.rank == rank]
        assert steps == list(range(200))


def test_sinks_get_every_event(tmp_path: Path) -> None:
    seen: list[Event] = []

    class Sink:
        def write(self, event: Event) -> None:
            seen.append(event)

    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    PerfLog(1, fd, sinks=[Sink()]).log("EPOCH_BEGIN", {"epoch": 1}, time_ms=3)
    os.close(fd)
    assert [(event.event, event.value, event.rank) for event in seen] == [("EPOCH_BEGIN", {"epoch": 1}, 1)]
