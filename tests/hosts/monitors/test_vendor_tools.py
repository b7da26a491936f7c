"""What the vendors' tools printed, read whole by the shipped vendor files. Sources: tests/data/smi/README.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from shipped import VENDORS

from flagperf.config.compose import compose
from flagperf.config.schema.monitor_tool import make_table
from flagperf.config.schema.values import JobConfig

SMI = Path(__file__).parents[2] / "data/smi"


def lines(*values: str) -> str:
    return "\n".join(values)


OUTPUTS = [
    ("nvidia", "A100", "nvidia-smi", lines(
        "35C 70.5W 1234MiB 40960MiB 0% 210MHz",
        "38C 75.2W 2048MiB 40960MiB 12% 1410MHz",
        "38C 4.7W N/A N/A 0%",
    )),
    ("ascend", "Atlas800TA2", "npu-smi", lines(
        "43C 133.9W 60478MiB 65536MiB 0%",
        "41C 147.8W 60060MiB 65536MiB 93%",
        "48C 194W 60059MiB 65536MiB 94%",
        "43C 206.1W 60058MiB 65536MiB 89%",
        "52C 201.1W 60059MiB 65536MiB 83%",
        "52C 150.1W 60059MiB 65536MiB 0%",
        "55C 157.6W 60058MiB 65536MiB 9%",
        "53C 177.3W 60058MiB 65536MiB 89%",
    )),
    ("ascend", "Ascend910", "npu-smi-910A", lines(
        "34C 70W 1365MiB 32768MiB 0%",
        "34C 66.9W 4MiB 32768MiB 0%",
        "34C 69.8W 4MiB 32768MiB 0%",
    )),
    ("ascend", "Ascend910", "npu-smi-22", lines(
        *["N/A N/A N/A N/A N/A"] * 4,  # the tool begins with device 4
        "43C N/A 861MiB 21534MiB 0%",
    )),
    ("kunlunxin", "R300", "xpu-smi", lines(
        "36C 86W 90440MiB 98304MiB 0%",
        "39C 86W 90440MiB 98304MiB 0%",
    )),
    ("iluvatar", "BI-V150", "ixsmi-BI-V150", lines(
        "32C 46.5W 116MiB 32768MiB 0%",
        "30C 46.5W 116MiB 32768MiB 0%",
        "31C 47W 116MiB 32768MiB 0%",
        "31C 47W 116MiB 32768MiB 0%",
    )),
    ("iluvatar", "BI-V100", "ixsmi-BI-V100", lines(
        *["N/A N/A N/A N/A N/A"] * 4,  # the tool begins with device 4
        "32C 55W 513MiB 32768MiB 0%",
        "0C 65535W 513MiB 32768MiB 100%",
        "31C 57W 513MiB 32768MiB 0%",
    )),
    ("cambricon", "MLU", "cnmon-5", lines(
        "32C 106W 0MiB 23374MiB 0%",
        "39C 106W 0MiB 23374MiB 0%",
    )),
    ("cambricon", "MLU", "cnmon-4", lines(
        "32C 30W 0MiB 23308MiB 0%",
        "33C 25W 0MiB 23308MiB 0%",
    )),
    ("cambricon", "MLU", "cnmon-masked", lines(
        "35C 105W 0MiB N/A 0%",
        "34C 100W 0MiB N/A 0%",
    )),
    ("tecorigin", "T100", "teco-smi-1.10", lines(
        "35C 22.5W 0MiB 15296MiB 0%",
        "35C 22.5W 165MiB 15296MiB 0%",
        "35C 22.5W 165MiB 15296MiB 0%",
        "35C 22.5W 165MiB 15296MiB 0%",
    )),
    ("dcu", "K100", "rocm-smi-K100", lines(
        "53C 96W 0MiB 65536MiB 0%",
        "53C 96W 0MiB 65536MiB 0%",
        "54C 95W 0MiB 65536MiB 0%",
        "55C 96W 0MiB 65536MiB 0%",
        "54C 97W 0MiB 65536MiB 0%",
        "54C 95W 0MiB 65536MiB 0%",
        "55C 93W 0MiB 65536MiB 0%",
        "54C 96W 0MiB 65536MiB 0%",
    )),
    ("dcu", "K100", "rocm-smi-Z100L", lines(
        "31C 39W 24248.3MiB 65536MiB 0%",  # 37 % of K100's 64 GiB
        "31C 39W 0MiB 65536MiB 0%",
    )),
    ("dcu", "K100", "rocm-smi-clocks", lines(
        "44C 20W 0MiB 65536MiB 0%",
        "44C 19W 0MiB 65536MiB 0%",
    )),
    ("metax", "C500", "mx-smi-2.1", lines(
        "31C 44W 810MiB 65536MiB 0%",
        "31C 46W 810MiB 65536MiB 0%",
    )),
    ("metax", "C500", "mx-smi-2.2", "44C 71W 986MiB 65536MiB 0%"),
    ("amd", "MI300X", "amd-smi-putm", lines(
        "42C 182W N/A N/A 83%",
        "40C 143W N/A N/A 13%",
        "41C 117W N/A N/A 0%",
        "40C 116W N/A N/A 1%",
        "42C 118W N/A N/A 0%",
        "39C 118W N/A N/A 0%",
        "41C 116W N/A N/A 0%",
        "40C 118W N/A N/A 0%",
    )),
    ("amd", "MI300X", "amd-smi-ptv", lines(
        "55C 248W 283MiB 196300MiB N/A",
        *["55C 247W 283MiB 196300MiB N/A"] * 3,
        "50C 221W 283MiB 196300MiB N/A",
    )),
    ("intel", "Gaudi2", "hl-smi-Gaudi2", lines(
        "26C 87W 768MiB 98304MiB 0%",
        "28C 99W 768MiB 98304MiB 0%",
    )),
    ("intel", "Gaudi3", "hl-smi-Gaudi3", lines(
        "36C 228W 672MiB 131072MiB 0%",
        "37C 226W 672MiB 131072MiB 0%",
    )),
    ("intel", "Max1550", "xpu-smi-Max1550", lines(
        "35.5C 293.8W 26751.8MiB 131072MiB N/A",
        "38.5C 287.1W 2188.9MiB 131072MiB N/A",
        "37C 281.7W 1717MiB 131072MiB N/A",
        "38C 293.6W 983MiB 131072MiB N/A",
        "42.5C 292.3W 825.8MiB 131072MiB N/A",
        "41C 284.8W 668.5MiB 131072MiB N/A",
    )),
    ("mthreads", "S4000", "mthreads-gmi", lines(
        "27C 96.7W 0MiB 81920MiB 0%",
        "26C 97.1W 0MiB 81920MiB 0%",
    )),
]  # fmt: skip


def configured(vendor: str, hardware: str) -> JobConfig:
    return compose([f"vendor={vendor}", f"hardware={hardware}", "runtime=process", "data_dir=/", "dry_run=true"])


def read(vendor: str, hardware: str, text: str) -> str:
    job = configured(vendor, hardware)
    assert job.vendor.monitor is not None
    return "\n".join(make_table(job.vendor.monitor, job.hardware)(text))


@pytest.mark.parametrize(("vendor", "hardware", "output", "expected"), OUTPUTS, ids=[row[2] for row in OUTPUTS])
def test_recorded_output(vendor: str, hardware: str, output: str, expected: str) -> None:
    assert read(vendor, hardware, (SMI / f"{output}.txt").read_text()) == expected


def test_every_output_and_every_vendor_is_tested() -> None:
    assert {f"{row[2]}.txt" for row in OUTPUTS} | {"teco-smi-1.15-cards.txt", "README.md"} == {
        path.name for path in SMI.iterdir()
    }
    assert {row[0] for row in OUTPUTS} | {"cpu"} == set(VENDORS)


WITHOUT_ONE = [row for row in OUTPUTS if "\n" in row[3] and not row[3].startswith("N/A")]


@pytest.mark.parametrize(("vendor", "hardware", "output", "expected"), WITHOUT_ONE, ids=[row[2] for row in WITHOUT_ONE])
def test_the_tools_index_keeps_the_others_in_place(vendor: str, hardware: str, output: str, expected: str) -> None:
    """Each tool's own output without its first device: that of the second one stays the second line."""
    job = configured(vendor, hardware)
    assert job.vendor.monitor is not None
    table = make_table(job.vendor.monitor, job.hardware)
    text = (SMI / f"{output}.txt").read_text()
    first = next(table.pattern.finditer(text))
    left = table(text[: first.start()] + text[first.end() :])
    assert (left[0].split()[0], left[-1]) == ("N/A", expected.splitlines()[-1])
    assert len(left) == len(expected.splitlines())


def test_newer_teco_smi_shows_the_utilisation_on_the_first_line() -> None:
    text = (SMI / "teco-smi-1.15-cards.txt").read_text()
    assert re.findall(r"(\S+)MiB (\d+)%", read("tecorigin", "T100", text)) == [("65536", "0"), ("65536", "0")]


def test_a_tecorigin_card_that_dropped_out_has_no_utilisation() -> None:
    text = (SMI / "teco-smi-1.10.txt").read_text().replace("  0% |", " N/A |", 1)
    assert read("tecorigin", "T100", text).splitlines()[:2] == [
        "35C 22.5W 0MiB 15296MiB N/A",
        "35C 22.5W 165MiB 15296MiB 0%",
    ]


def test_mthreads_figures_may_be_missing_and_in_any_order() -> None:
    document = json.loads((SMI / "mthreads-gmi.txt").read_text())
    first, second = document["GPU"]
    del first["Power Readings"], first["Utilization"]
    second["FB Memory Usage"] = second.pop("FB Memory Usage")
    assert read("mthreads", "S4000", json.dumps(document, indent=4)).splitlines() == [
        "27C N/A 0MiB 81920MiB N/A",
        "26C 97.1W 0MiB 81920MiB 0%",
    ]


@pytest.mark.parametrize(
    ("vendor", "hardware", "tool", "output"),
    [
        ("mthreads", "S4000", "mthreads-gmi", "mthreads-gmi"),
        ("dcu", "K100", "rocm-smi", "rocm-smi-K100"),
        ("iluvatar", "BI-V150", "ixsmi", "ixsmi-BI-V150"),
    ],
)
def test_commands_of_a_shell_run_the_tool(tmp_path: Path, vendor: str, hardware: str, tool: str, output: str) -> None:
    stand_in = tmp_path / tool
    stand_in.write_text(f"#!/bin/sh\ncat '{SMI / output}.txt'\n")
    stand_in.chmod(0o755)
    job = configured(vendor, hardware)
    assert job.vendor.monitor is not None
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(job.vendor.monitor.command, env={"PATH": path}, capture_output=True, text=True, check=True)
    expected = next(row[3] for row in OUTPUTS if row[2] == output)
    assert read(vendor, hardware, done.stdout) == expected
