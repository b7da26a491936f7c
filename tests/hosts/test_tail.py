"""The reading of growing logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.contract.perflog import Event
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.tail import Tail


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


@pytest.mark.asyncio
async def test_a_line_without_end_costs_neither_memory_nor_time(tmp_path: Path) -> None:
    """64 MiB in one line, in four looks; the lines around it are read."""
    log = tmp_path / "log"
    event = Event("STEP_END", {"step": 3}, "f.py", 1, 2, 0)
    log.write_bytes(event.line().encode() + b"\n" + b"x" * (64 << 20) + b"\n" + event.line().encode() + b"\n")
    tail = Tail(LocalTransport("here"), str(log))
    looks = [await tail.events() for _ in range(5)]
    assert looks == [[event], [], [], [], [event]]
