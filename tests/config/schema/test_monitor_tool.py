"""A vendor file's description of its tool: what it reads, and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from flagperf.config.schema.monitor_tool import make_table
from flagperf.config.schema.platform import Hardware, MonitorTool
from flagperf.errors import ConfigError

PARSE = r"""
    ^\# \d+ \s+ (?P<temperature>\S+) C \s+ (?P<power>\S+)
    \n \s+ (?P<memory_used>\S+) / (?P<memory_total>\S+)    # the second line of a device
    (\s+ util=(?P<utilisation>\S+))?
"""


CARD = Hardware("A2", "two devices a card", memory_gib=16, power_w=None, peak_flops={}, devices_per_card=2)


def tool(**values: Any) -> MonitorTool:
    return MonitorTool(**{"command": ("acme-smi",), "parse": PARSE, **values})


def test_a_device_may_span_lines_and_miss_figures() -> None:
    text = "Acme 1.0\n#0 41C 120.5\n  3/16 util=50\n#1 N/AC ERR\n  [N/A]/16\n"
    assert make_table(tool(), CARD)(text) == ["41C 120.5W 3MiB 16MiB 50%", "N/A N/A N/A 16MiB N/A"]


@pytest.mark.parametrize(
    ("units", "line"),
    [
        pytest.param({"memory": "GiB"}, "41C 120.5W 3072MiB 16384MiB 50%", id="GiB"),
        pytest.param({"memory": "GB", "power": "mW"}, "41C 0.1W 2861MiB 15258.8MiB 50%", id="GB and mW"),
        pytest.param({"memory": "%"}, "41C 120.5W 491.5MiB 2621.4MiB 50%", id="percent of the hardware's memory"),
        pytest.param({"utilisation": "fraction"}, "41C 120.5W 3MiB 16MiB 5000%", id="fraction"),
    ],
)
def test_units(units: dict[str, str], line: str) -> None:
    assert make_table(tool(units=units), CARD)("#0 41C 120.5\n  3/16 util=50") == [line]


@pytest.mark.parametrize(("memory", "line"), [(16, "8192MiB 16384MiB"), (None, "N/A N/A")])
def test_percent_tells_the_whole_memory_too(memory: float | None, line: str) -> None:
    percent = MonitorTool(("acme-smi",), r"(?P<memory_used>\d+)% \s (?P<utilisation>\d+)%", {"memory": "%"})
    table = make_table(percent, replace(CARD, memory_gib=memory))
    assert table("50% 7%") == [f"N/A N/A {line} 7%"]


@pytest.mark.parametrize(
    "powers",
    [
        pytest.param(("90", "90", "60", "60"), id="on each device"),
        pytest.param(("N/A", "90", "60", "N/A"), id="on one device"),
    ],
)
def test_the_power_of_a_card_is_shared_by_its_devices(powers: tuple[str, ...]) -> None:
    text = "".join(f"#{number} 41C {power}\n  3/16\n" for number, power in enumerate(powers))
    lines = make_table(tool(power_of="card"), CARD)(text)
    assert [line.split()[1] for line in lines] == ["45W", "45W", "30W", "30W"]


def test_an_impossible_power_stays_in_the_log_and_is_shared_with_nobody() -> None:
    assert make_table(tool(), CARD)("#0 0C 65535\n 3/16") == ["0C 65535W 3MiB 16MiB N/A"]
    lines = make_table(tool(power_of="card"), CARD)("#0 41C 65535\n 3/16\n#1 41C 90\n 3/16")
    assert [line.split()[1] for line in lines] == ["45W", "45W"]


NUMBERED = MonitorTool(("acme-smi",), r"^(?P<index>\S+): \s (?P<power>\S+)W")


def test_devices_stand_at_the_tools_own_index() -> None:
    """Also those that come in another order, or are missing in some samples, the last one too."""
    table = make_table(NUMBERED, CARD)
    samples = ["0: 10W\n1: 20W\n", "1: 20W\n", "2: 30W\n0: 10W\n", "0: 10W\n"]
    assert [[line.split()[1] for line in table(text)] for text in samples] == [
        ["10W", "20W"],
        ["N/A", "20W"],
        ["10W", "N/A", "30W"],
        ["10W", "N/A", "N/A"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("0: 10W\n0: 20W", "two devices have the index 0", id="twice"),
        pytest.param("a: 10W", "'a' is no index of a device", id="no number"),
        pytest.param("-1: 10W", "'-1' is no index of a device", id="negative"),
        pytest.param("99999: 10W", "'99999' is no index of a device", id="too large"),
        pytest.param("1024: 10W", "'1024' is no index of a device", id="more than a node has"),
        pytest.param("", "no device in it", id="none"),
    ],
)
def test_an_index_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_table(NUMBERED, CARD)(text)


BOX = """\
warning: slow
+--------------------------+------------------+
| GPU  Name                | Bus-Id  Health   |
| Temp  Pwr:Usage/Cap      | Memory-Usage     |
|==========================+==================|
| 1    A 7                 | 0:1         OK   |
| 41C   120.5W / 300W      | 3 / 16 GiB       |
+--------------------------+------------------+
| 0    A 7                 | 0:2         OK   |
| N/A   - / N/A            | N/A / 16 GiB     |
+--------------------------+------------------+
| Processes:                                  |
| 0   77  python                              |
"""
COLUMNS = {
    "index": ("Device", "GPU"),
    "temperature": ("Temp",),
    "power": ("Pwr:Usage/Cap",),
    "memory_used": ("Memory-Usage",),
    "memory_total": ("Memory-Usage",),
}


@pytest.mark.parametrize(
    ("text", "lines", "lacks"),
    [
        pytest.param(BOX, ["N/A N/A N/A 16384MiB N/A", "41C 120.5W 3072MiB 16384MiB N/A"], {}, id="box"),
        pytest.param(
            "Device, Temp, Memory-Usage, Pwr:Usage/Cap\n0, 41, 3/16, 120.5\n# a remark\n1, 42, 4/16, 90\n",
            ["41C 120.5W 3072MiB 16384MiB N/A", "42C 90W 4096MiB 16384MiB N/A"],
            {},
            id="commas",
        ),
        pytest.param(
            "GPU   Temp  Memory-Usage\n  0   41 °C     3/16 GB\n\nGPU  PID\n  7  12\n",
            ["41C N/A 3072MiB 16384MiB N/A"],
            {"power": "no column Pwr:Usage/Cap of power; the columns are GPU, Temp, Memory-Usage"},
            id="no box, a column less, another table",
        ),
        pytest.param(
            "GPU  Temp  Temp  Memory-Usage  Pwr:Usage/Cap\n  0    41    44  3000 / 16000 M         12 30\n",
            None,
            {
                "temperature": "two columns Temp of temperature",
                "memory_used": "'3000 / 16000 M' in the column Memory-Usage is no memory_used in GiB",
                "memory_total": "'3000 / 16000 M' in the column Memory-Usage is no memory_total in GiB",
                "power": "'12 30' in the column Pwr:Usage/Cap is no power in W",
            },
            id="what cannot be told",
        ),
    ],
)
def test_figures_stand_below_their_headings(text: str, lines: list[str] | None, lacks: dict[str, str]) -> None:
    table = make_table(tool(parse="", columns=COLUMNS, units={"memory": "GiB"}), CARD)
    if lines is None:
        with pytest.raises(ValueError, match="no device in it"):
            table(text)
    else:
        assert table(text) == lines
    assert table.last.lacks == lacks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("no devices were found", "no column Device or GPU", id="no table"),
        pytest.param(
            BOX.replace("| N/A   - / N/A            | N/A / 16 GiB     |\n", ""),
            "1 lines of devices below 2 lines of headings",
            id="a device with a line less",
        ),
    ],
)
def test_a_table_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_table(tool(parse="", columns=COLUMNS), CARD)(text)


@pytest.mark.parametrize("text", ["", "no devices were found", "#0 ERRC ERR\n  -/-"])
def test_output_without_a_device(text: str) -> None:
    with pytest.raises(ValueError, match="no device in it"):
        make_table(tool(), CARD)(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(
            {"parse": "(?P<power>"},
            "not a regular expression: missing ), unterminated subpattern at position 0\n"
            "  where:   vendor.monitor.parse.yaml\n  key:     vendor.monitor.parse\n  given:   (?P<power>",
            id="syntax",
        ),
        pytest.param(
            {"parse": r"(?P<pover>\d+)"},
            "unknown group\n  where:   vendor.monitor.parse.yaml\n  key:     vendor.monitor.parse\n  given:   pover\n"
            "  do:      did you mean 'power'?",
            id="unknown group",
        ),
        pytest.param(
            {"parse": r"(?P<index>\d+)"},
            "the expression has no group of a figure\n  where:   vendor.monitor.parse.yaml\n"
            "  key:     vendor.monitor.parse\n"
            "  allowed: temperature, power, memory_used, memory_total, utilisation, energy, clock, throttle",
            id="no group",
        ),
        pytest.param(
            {"parse": "", "columns": {"pover": ("POWER",)}},
            "unknown figure\n  where:   vendor.monitor.columns.pover.yaml\n  key:     vendor.monitor.columns\n"
            "  given:   pover\n  do:      did you mean 'power'?",
            id="unknown figure",
        ),
        pytest.param(
            {"parse": "", "columns": {"power": ()}},
            "no heading\n  where:   vendor.monitor.columns.power.yaml\n  key:     vendor.monitor.columns.power\n"
            "  given:   []",
            id="no heading",
        ),
        pytest.param(
            {"parse": "", "columns": {"index": ("GPU",)}},
            "the headings of the figures are missing\n  where:   vendor.monitor.columns.yaml\n"
            "  key:     vendor.monitor.columns\n  given:   {'index': ('GPU',)}\n"
            "  allowed: temperature, power, memory_used, memory_total, utilisation, energy, clock, throttle\n"
            "  do:      name the headings of the tool's table, or an expression: vendor.monitor.parse "
            "(docs/monitors.md)",
            id="no figure",
        ),
        pytest.param(
            {"units": {"power": "kW"}},
            "unknown unit\n  where:   vendor.monitor.units.power.yaml\n  key:     vendor.monitor.units.power\n"
            "  given:   kW\n  allowed: power: W | mW; memory: MiB | GiB | KiB | B | MB | GB | %; "
            "utilisation: % | fraction; energy: J | mJ",
            id="unknown unit",
        ),
        pytest.param(
            {"command": ()},
            "the command is empty\n  where:   vendor.monitor.command.yaml\n  key:     vendor.monitor.command\n"
            "  given:   []",
            id="no command",
        ),
        pytest.param(
            {"command": ("", "x")},
            "the command is empty\n  where:   vendor.monitor.command.yaml\n  key:     vendor.monitor.command\n"
            "  given:   ['', 'x']",
            id="a command without a name",
        ),
    ],
)
def test_a_wrong_description_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_table(tool(**values), CARD, "{}.yaml".format)
    assert str(caught.value) == message
