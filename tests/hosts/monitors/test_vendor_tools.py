"""What the vendors' tools printed, read whole by the shipped vendor files. Sources: tests/data/smi/README.md."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from shipped import VENDORS

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.config.schema.monitor_columns import Columns
from flagperf.config.schema.monitor_tool import Table, make_table
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
    ("ascend", "Ascend910C", "npu-smi-910C", lines(  # Phy-ID counts; the first die of an NPU shows the power of both
        "43C 102W 59807MiB 65536MiB 100%",
        "40C 102W 59536MiB 65536MiB 60%",
        "41C 99W 59807MiB 65536MiB 97%",
        "41C 99W 59536MiB 65536MiB 95%",
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
    ("amd", "MI300X", "amd-smi-6.4.1", lines(
        "55C 248W 60283MiB 196592MiB 97%",
        "55C 247W 60283MiB 196592MiB 96%",
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


@functools.cache
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


def test_the_tool_of_every_product_with_several_devices_on_a_card_is_read() -> None:
    products = {path.stem: yaml.safe_load(path.read_text()) for path in (CONF / "hardware").glob("*.yaml")}
    several = {name for name, product in products.items() if product.get("devices_per_card", 1) > 1}
    assert several == {row[1] for row in OUTPUTS} & several | {"MI250X"}  # no output of it is public
    for name in several:
        monitor = configured(products[name]["vendor"], name).vendor.monitor
        assert monitor is not None and monitor.power_of == "card", name


WITHOUT_ONE = [row for row in OUTPUTS if "\n" in row[3] and not row[3].startswith("N/A")]


@pytest.mark.parametrize(("vendor", "hardware", "output", "expected"), WITHOUT_ONE, ids=[row[2] for row in WITHOUT_ONE])
def test_the_tools_index_keeps_the_others_in_place(vendor: str, hardware: str, output: str, expected: str) -> None:
    """Each tool's own output without its first device: that of the second one stays the second line."""
    job = configured(vendor, hardware)
    assert job.vendor.monitor is not None
    table = make_table(job.vendor.monitor, job.hardware)
    text = (SMI / f"{output}.txt").read_text()
    first = table.reader.parse(text).rows[0].text
    assert text.count(first) == 1
    left = table(text.replace(first, ""))
    assert (left[0].split()[0], left[-1]) == ("N/A", expected.splitlines()[-1])
    assert len(left) == len(expected.splitlines())


# ---------------------------------------------------------------- other versions of a tool


def table_of(vendor: str, hardware: str) -> Table:
    job = configured(vendor, hardware)
    assert job.vendor.monitor is not None
    return make_table(job.vendor.monitor, job.hardware)


def answer(table: Table, text: str) -> str:
    """What a table reads, or why it refuses."""
    try:
        return "\n".join(dataclasses.replace(table, device_count=0)(text))
    except ValueError as error:
        return f"refused: {error}"


def headings_of(table: Table) -> list[str]:
    of_figures = table.reader.headings.values() if isinstance(table.reader, Columns) else ()
    return [heading.rstrip("$") for headings in of_figures for heading in headings]


def same_or_unknown(read: str, expected: str) -> bool:
    """Whether no figure is another one: each is the same, or not known, or the output is refused."""
    words = zip(read.split(), expected.split(), strict=False)
    return read.startswith("refused: ") or all(word in (known, "N/A") for word, known in words)


def kinds_of_lines(table: Table, text: str) -> list[list[int]]:
    """The numbers of the lines that stand below each other: a line of headings, if there is one, and of the devices."""
    lines = text.splitlines()
    devices = [row.text.splitlines() for row in table.reader.parse(text).rows]
    first, size = [lines.index(device[0]) for device in devices], len(devices[0])
    head = [number for number, line in enumerate(lines[: first[0]]) if any(name in line for name in headings_of(table))]
    return [[*head[-size:][at : at + 1], *(number + at for number in first)] for at in range(size)]


def with_another_column(text: str, numbers: list[int]) -> Iterator[str]:
    """The output with a column more, at each place: between two commas, or where each line has a space."""
    lines = text.splitlines()
    width = max(len(lines[number]) for number in numbers)
    has_commas = "," in lines[numbers[-1]]
    for place in range(width):
        changed = {number: lines[number].ljust(width) for number in numbers}
        if has_commas:
            cells = {number: line.rstrip().split(",") for number, line in changed.items()}
            if place > len(cells[numbers[0]]):
                return
            added = {number: [*row[:place], " 7", *row[place:]] for number, row in cells.items()}
            changed = {number: ",".join(row) for number, row in added.items()}
        elif all(line[place] == " " for line in changed.values()):
            values = {number: f"  {'NEW' if number < numbers[1] else '  7'}  " for number in numbers}
            changed = {number: line[:place] + values[number] + line[place:] for number, line in changed.items()}
        else:
            continue
        yield "\n".join(changed.get(number, line) for number, line in enumerate(lines))


IN_COLUMNS = [row for row in OUTPUTS if row[0] != "mthreads"]  # JSON


@pytest.mark.parametrize(("vendor", "hardware", "output", "expected"), IN_COLUMNS, ids=[row[2] for row in IN_COLUMNS])
def test_a_column_more_is_read_rightly_or_refused(vendor: str, hardware: str, output: str, expected: str) -> None:
    text, table = (SMI / f"{output}.txt").read_text(), table_of(vendor, hardware)
    outputs = [changed for kind in kinds_of_lines(table, text) for changed in with_another_column(text, kind)]
    answers = [answer(table, changed) for changed in outputs]
    assert [read for read in answers if not same_or_unknown(read, expected)] == []
    assert len(answers) > 7 and (expected in answers or not isinstance(table.reader, Columns))


NAMED = [row for row in OUTPUTS if row[0] not in ("nvidia", "kunlunxin")]  # these print no names


@pytest.mark.parametrize(("vendor", "hardware", "output", "expected"), NAMED, ids=[row[2] for row in NAMED])
def test_a_figure_with_another_name_is_unknown(vendor: str, hardware: str, output: str, expected: str) -> None:
    text, table = (SMI / f"{output}.txt").read_text(), table_of(vendor, hardware)
    names = headings_of(table) or re.findall(r'"([A-Z][^"]+)":', text)
    answers = {name: answer(table, re.sub(rf'(?<!\S)"?{re.escape(name)}', "X" * len(name), text)) for name in names}
    assert {name: read for name, read in answers.items() if not same_or_unknown(read, expected)} == {}
    assert any(read != expected for read in answers.values())


def test_an_amount_in_another_unit_is_unknown() -> None:
    table = table_of("amd", "MI300X")
    text = (SMI / "amd-smi-6.4.1.txt").read_text()
    assert table(text.replace("60283 MB", "   59 GB")) == ["55C 248W N/A 196592MiB 97%", "55C 247W N/A 196592MiB 96%"]
    assert table.last.lacks == {"memory_used": "'59 GB' in the column VRAM_USED is no memory_used in MiB"}


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
