"""A device's line round trip, and time stamps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flagperf.contract.monitor_log import (
    Device,
    device_blocks,
    host_samples,
    monitor_log,
    monitor_logs,
    node_samples,
    parse_line,
    parse_stamp,
    stamp,
)
from flagperf.contract.perflog import Event

LINES = [
    pytest.param(Device(31, 57, 15, 40536, 0), "31C 57W 15MiB 40536MiB 0%", id="flagperf's own example"),
    pytest.param(Device(31.5, 57.25, 15, 141120.4, 99.5), "31.5C 57.2W 15MiB 141120.4MiB 99.5%", id="one decimal"),
    pytest.param(Device(31, 57, 15, 16, 0, 1234567890.3), "31C 57W 15MiB 16MiB 0% 1234567890.3J", id="energy counter"),
    pytest.param(Device(31, 57, 15, 16, 0, 12, 1410), "31C 57W 15MiB 16MiB 0% 12J 1410MHz", id="energy and clock"),
    pytest.param(Device(31, 57, 15, 16, 0, clock=1410), "31C 57W 15MiB 16MiB 0% 1410MHz", id="clock"),
    pytest.param(Device(-5, None, 15, None, 0), "-5C N/A 15MiB N/A 0%", id="unknown figures"),
    pytest.param(Device(), "N/A N/A N/A N/A N/A", id="lost device"),
]


@pytest.mark.parametrize(("device", "line"), LINES)
def test_a_line_says_what_is_known(device: Device, line: str) -> None:
    assert device.line() == line


@pytest.mark.parametrize(("device", "line"), LINES)
def test_a_line_is_read_back(device: Device, line: str) -> None:
    read = parse_line(line)
    assert read is not None
    assert read.line() == line
    assert (read.power is None) == (device.power is None)


@pytest.mark.parametrize(
    "line",
    [
        *("", "2025-01-31-14:05:09", "31C 57W 15MiB 40536MiB", "31 57W 15MiB 40536MiB 0%", "31C 57W 15GiB 40536MiB 0%"),
        *("31C 57W 15MiB 16MiB 0% 1410MHz 12J", "31C 57W 15MiB 16MiB 0% 12J 1410MHz 1", "31C 57W 15MiB 16MiB 1410MHz"),
    ],
)
def test_other_lines_are_no_devices(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("zone", "offset"), [("UTC", "+0000"), ("Asia/Kathmandu", "+0545"), ("America/St_Johns", "-0330")]
)
def test_a_stamp_is_the_same_time_in_every_zone(monkeypatch: pytest.MonkeyPatch, zone: str, offset: str) -> None:
    with local_zone(monkeypatch, zone):
        text = stamp(1_700_000_000.9)
    assert (text[-5:], parse_stamp(text)) == (offset, 1_700_000_000)
    assert parse_stamp("not a time") is None


@contextlib.contextmanager
def local_zone(monkeypatch: pytest.MonkeyPatch, zone: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()


BERLIN = "2026-01-01-01:00:0{}"  # without offset, as FlagPerf writes it


@pytest.mark.parametrize(
    ("ranks", "first"),
    [
        pytest.param({3: 9.0, 11: 99.0}, 1_767_225_600.0, id="the first rank that logged an event says when"),
        pytest.param({}, 1_767_222_000.0, id="no rank: the time zone of this machine"),
        pytest.param({3: 9e7}, 1_767_222_000.0, id="a log of another day tells nothing"),
    ],
)
def test_a_log_without_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: dict[int, float], first: float
) -> None:
    times = [BERLIN.format(second) for second in (0, 5)]
    (tmp_path / "cpu_monitor.log").write_text("".join(f"{moment}\t0.5\n" for moment in times))
    (tmp_path / "host_monitor.log").write_text("".join(f"{moment}\t3.2load\n" for moment in times))
    (tmp_path / "acme_monitor.log").write_text("".join(f"{moment}\n{Device(31.0).line()}\n\n" for moment in times))
    (tmp_path / "rank2.out.log").write_text("no event\n")
    for rank, later in ranks.items():
        event = Event("INIT_START", time_ms=int(1000 * (1_767_225_600 + later)))
        (tmp_path / f"rank{rank}.out.log").write_text(f"an import warns\n{event.line()}\n")
    with local_zone(monkeypatch, "Europe/Athens"):
        texts = dict(monitor_logs(tmp_path))
        readers: dict[str, Callable[[str], Iterator[tuple[float, Any]]]] = {
            "cpu": node_samples,
            "host": host_samples,
            "acme": device_blocks,
        }
        found = {name: [moment for moment, _ in readers[name](text)] for name, text in texts.items()}
        assert list(node_samples(monitor_log(tmp_path, "cpu"))) == [(first, [0.5]), (first + 5, [0.5])]
    assert found == {name: [first, first + 5] for name in readers}
