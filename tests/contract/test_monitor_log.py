"""A device's line round trip, and time stamps."""

from __future__ import annotations

import pytest

from flagperf.contract.monitor_log import Device, parse_line, parse_stamp, stamp

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


def test_a_stamp_keeps_whole_seconds() -> None:
    assert parse_stamp(stamp(1_700_000_000.9)) == 1_700_000_000
    assert parse_stamp("not a time") is None
