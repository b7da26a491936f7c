"""The table of a probe."""

from __future__ import annotations

from typing import Any

import pytest

from flagperf.contract.records import ProbedDevice
from flagperf.report.probe import probe_rows

DEVICES = (
    ProbedDevice(0, "a", "A100", {"fp32": 1e12, "memory": 1e12}),
    ProbedDevice(1, "a", "A100", {"fp32": 3e12, "memory": 2e12}),
)
FP32, MEMORY = "fp32 [TFLOP/s]", "memory [GB/s]"


@pytest.mark.parametrize(
    ("hardware", "sheet"),
    [
        pytest.param({"peak_flops": {"fp32": 4e12}, "memory_bandwidth": 5e12}, ("4", "5,000"), id="all"),
        pytest.param({"peak_flops": {"bf16": 9e12}, "memory_bandwidth": 5e12}, ("–", "5,000"), id="memory alone"),
        pytest.param({"peak_flops": {"fp32": 4e12}, "memory_bandwidth": None}, ("4", "–"), id="a peak alone"),
        pytest.param({"peak_flops": {"bf16": 9e12}}, None, id="nothing that was measured"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_the_data_sheet_has_each_figure_that_it_states(hardware: dict[str, Any], sheet: tuple[str, str] | None) -> None:
    rows = [(row["rank"], (row[FP32], row[MEMORY])) for row in probe_rows(DEVICES, hardware)]
    measured = [("0", ("1", "1,000")), ("1", ("3", "2,000")), ("mean", ("2", "1,500"))]
    assert rows == [*measured, *([("data sheet", sheet)] if sheet else [])]
