"""What the ranks measured, read from their logs, and which devices are slower than their fellows."""

from __future__ import annotations

import pytest

from flagperf.contract.perflog import Event
from flagperf.contract.records import ProbedDevice
from flagperf.results.probe import probed_devices, slower_devices
from flagperf.results.rank_log import RankLog


def devices(figure: str, *values: float) -> tuple[ProbedDevice, ...]:
    return tuple(ProbedDevice(rank, f"h{rank // 8}", "A1", {figure: value}) for rank, value in enumerate(values))


def slow(rank: int, what: str) -> str:
    return f"rank {rank} on h{rank // 8} is slower than its fellows: {what}"


SLOWER = [
    pytest.param("bf16", [], [], id="no device"),
    pytest.param("bf16", [5e14], [], id="one device has no fellows"),
    pytest.param("bf16", [5e14, 4.6e14], [], id="of two, 8 % below the other"),
    pytest.param("bf16", [5e14, 4e14], [slow(1, "bf16 400 TFLOP/s, 20% below their 500")], id="of two, 20 %"),
    pytest.param(
        "memory", [2e12] * 7 + [1e12], [slow(7, "memory 1000 GB/s, 50% below their 2000")], id="one of eight alike"
    ),
    pytest.param("memory", [1e12, 1e12, 1e12, 3e12], [], id="a fast one: the others are within the sigma"),
    pytest.param("memory", [2e12] * 7 + [1.81e12], [], id="more than a sigma, less than 10 %"),
    pytest.param(
        "all_reduce_node",
        [1e11] * 8 + [3e11] * 8,
        [slow(rank, "all-reduce, node 100 GB/s, 52% below their 206.7") for rank in range(8)],
        id="a node",
    ),
    pytest.param("all_reduce", [1e11, 3e11], [], id="a figure of all together"),
]


@pytest.mark.parametrize(("figure", "values", "expected"), SLOWER)
def test_slower_devices(figure: str, values: list[float], expected: list[str]) -> None:
    assert list(slower_devices(devices(figure, *values))) == expected


def test_devices_of_the_logs() -> None:
    def log(rank: int, *events: Event) -> RankLog:
        return RankLog(rank, "alpha", 0, events)

    value = {"device": "A1", "fp32": 1e12, "fp16": None, "memory": 2e9, "of another version": 3.0}
    logs = [log(0, Event("PROBE", value), Event("FINISHED")), log(1, Event("FINISHED")), log(2, Event("PROBE"))]
    assert probed_devices(logs) == (
        ProbedDevice(0, "alpha", "A1", {"fp32": 1e12, "memory": 2e9}),
        ProbedDevice(2, "alpha", "unknown", {}),
    )
