"""Deadlines over what the ranks show, and the reading of growing logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.config.values import Deadlines
from flagperf.hosts.local import LocalTransport
from flagperf.perflog import Event
from flagperf.run.watch import Tail, Watch

DEADLINES = Deadlines(connect=1, start=10, first_step=20, stall=5, stop=1)
Seen = tuple[float, int, str]  # when, rank, event
SUBMITTED: list[Seen] = [(1, 0, "SUBMIT_INFO"), (2, 1, "SUBMIT_INFO"), (3, 2, "SUBMIT_INFO")]
FIRST_STEP: list[Seen] = [*SUBMITTED, (4, 0, "TRAIN_START"), (5, 0, "STEP_END")]


@pytest.mark.parametrize(
    ("seen", "now", "overdue"),
    [
        pytest.param([], 10, None, id="start: in time"),
        pytest.param([], 10.1, "no sign of life from ranks 0, 1, 2 within 10 s (deadlines.start)", id="start: none"),
        pytest.param(
            SUBMITTED[:2], 10.1, "no sign of life from rank 2 within 10 s (deadlines.start)", id="start: one is missing"
        ),
        pytest.param(SUBMITTED, 23, None, id="first step: in time"),
        pytest.param(SUBMITTED, 23.1, "no first step within 20 s (deadlines.first_step)", id="first step: late"),
        pytest.param(
            [*SUBMITTED, (20, 0, "HEARTBEAT")],
            23.1,
            "no first step within 20 s (deadlines.first_step)",
            id="first step: moving is not enough",
        ),
        pytest.param(FIRST_STEP, 10, None, id="stall: in time"),
        pytest.param(FIRST_STEP, 10.1, "hang: no progress for 5 s (deadlines.stall)", id="stall"),
        pytest.param([*FIRST_STEP, (9, 0, "HEARTBEAT")], 13, None, id="stall: a heartbeat is progress"),
        pytest.param(
            [*FIRST_STEP, (9, 1, "STEP_END")],
            10.1,
            "hang: no progress for 5 s (deadlines.stall)",
            id="stall: rank 0 counts",
        ),
    ],
)
def test_overdue(seen: list[Seen], now: float, overdue: str | None) -> None:
    watch = Watch(3, DEADLINES, started=0)
    for when, rank, event in seen:
        watch.saw(rank, Event(event, rank=rank), when)
    assert watch.overdue(now) == overdue


@pytest.mark.asyncio
async def test_tail_gives_each_complete_line_once_and_copies_all(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    tail = Tail(LocalTransport("here"), str(log), copy)
    assert await tail.lines() == []
    log.write_bytes(b"one\ntw")
    assert await tail.lines() == ["one"]
    with log.open("ab") as file:
        file.write("o\nthrée\n".encode() + b"\xff\n")
    assert await tail.lines() == ["two", "thrée", "\N{REPLACEMENT CHARACTER}"]
    assert await tail.lines() == []
    assert copy.read_bytes() == log.read_bytes()


@pytest.mark.asyncio
async def test_tail_finds_events_among_other_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    event = Event("STEP_END", {"step": 3}, "f.py", 1, 2, 0)
    log.write_text(f"noise\n{event.line()}\n")
    assert await Tail(LocalTransport("here"), str(log)).events() == [event]
