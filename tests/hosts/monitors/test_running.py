"""Monitors run for real on this machine: logs, faults of the tool, and nothing left behind."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.platform import Hardware, MonitorTool
from flagperf.config.schema.values import JobConfig
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.monitors.running import Recorder, ask_once, monitors, running
from flagperf.plan.values import NodePlan

STAMP = r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d[+-]\d{4}"
PARSE = r"^(?P<temperature>\S+)C \s (?P<power>\S+)W"


def watch(job: JobConfig, node: NodePlan, lines: int = 3, until: str = "") -> dict[str, str]:
    """Run the monitors until the vendor's log says `until` and memory's has so many lines. Log file → text."""
    folder = Path(node.log_dir)

    def text(log: str) -> str:
        return (folder / log).read_text() if (folder / log).exists() else ""

    async def main() -> None:
        async with LocalTransport("here") as transport, running(job, node, transport, folder):
            for _ in range(300):
                await asyncio.sleep(0.1)
                acme = text("acme_monitor.log")
                if acme and until in acme and text("mem_monitor.log").count("\n") >= lines:
                    return

    asyncio.run(main())
    return {path.name: path.read_text() for path in folder.iterdir()}


def script(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "acme-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path),)


def running_processes(word: str) -> list[str]:
    """Command lines that hold the word."""
    lines = (" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if word in line]


def test_the_logs_have_flagperfs_formats(make_job: Callable[..., JobConfig], node: NodePlan, tmp_path: Path) -> None:
    tool = MonitorTool(script(tmp_path, 'echo "31C 57W"; echo "32C 58W"'), PARSE)
    logs = watch(make_job(tool), node)
    assert sorted(logs) == ["acme_monitor.log", "cpu_monitor.log", "mem_monitor.log", "pwr_monitor.log"]
    assert re.fullmatch(rf"({STAMP}\t[01]\.\d{{4}}\n)+", logs["cpu_monitor.log"])
    assert re.fullmatch(rf"({STAMP}\t0\.\d{{4}}\n)+", logs["mem_monitor.log"])
    assert re.fullmatch(rf"({STAMP}\t(\d+(\.\d+)?(\t[\d.]+)?|not available: .*)\n)+", logs["pwr_monitor.log"])
    block = "31C 57W N/A N/A N/A\n32C 58W N/A N/A N/A"
    assert re.fullmatch(rf"({STAMP}\n{block}\n\n)+", logs["acme_monitor.log"])


def test_what_a_tool_started_ends_with_it(make_job: Callable[..., JobConfig], node: NodePlan, tmp_path: Path) -> None:
    """A shell around the tool ends by SIGTERM, the tool in it does not: no sample leaves one behind."""
    child = tmp_path / "child"
    child.write_text("#!/bin/sh\ntrap '' TERM\necho $$ >>$0.pids\nwhile :; do sleep 1; done\n")
    child.chmod(0o755)
    tool = MonitorTool(script(tmp_path, f"{child} & wait"), PARSE, timeout=0.3)
    samples = tmp_path / "child.pids"

    async def main() -> None:
        async with LocalTransport("here") as transport, running(make_job(tool), node, transport, Path(node.log_dir)):
            for _ in range(600):
                await asyncio.sleep(0.1)
                if samples.exists() and samples.read_text().count("\n") > 4:
                    break
            assert samples.read_text().count("\n") > 4
            assert len(running_processes(str(child))) <= 2  # that of this sample, and one that is being ended

    asyncio.run(main())


NO_DEVICE = r"cannot be read \(no device in it\): "


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("echo out of order; exit 3", "out of order", id="fails"),
        pytest.param("exec sleep 1000", "gave no answer within 0.3 s", id="hangs"),
        pytest.param("trap '' TERM; while :; do sleep 1; done", "gave no answer within 0.3 s", id="ignores SIGTERM"),
        pytest.param("exec yes garbage", "printed more than 1 MiB", id="prints without end"),
        pytest.param("date +%N", NO_DEVICE + r"\d+", id="garbage"),
        pytest.param("head -c 3000 /dev/urandom", NO_DEVICE + ".*", id="binary garbage"),
        pytest.param("exit 0", NO_DEVICE + "no output", id="prints nothing"),
    ],
)
def test_a_tool_out_of_order_is_reported_once(
    make_job: Callable[..., JobConfig],
    node: NodePlan,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    text: str,
    problem: str,
) -> None:
    tool = MonitorTool(script(tmp_path, text), PARSE, timeout=0.3)
    with caplog.at_level(logging.WARNING):
        logs = watch(make_job(tool), node, lines=8)
    line = rf"not available: \S*/acme-smi'?: {problem}"
    assert re.fullmatch(rf"{STAMP}\t{line}\n", logs["acme_monitor.log"])
    assert len(caplog.messages) == 1
    assert re.fullmatch(rf"here: monitor acme: {line}", caplog.messages[0])
    assert len(re.findall(STAMP, logs["mem_monitor.log"])) >= 3  # the other monitors go on
    assert not running_processes(str(tmp_path))


def test_the_status_of_a_tool_that_prints_figures_is_a_warning(
    make_job: Callable[..., JobConfig], node: NodePlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = 'for device in $(seq 200); do echo "31C 57W"; done; echo "WARNING: infoROM is corrupted" >&2; exit 14'
    with caplog.at_level(logging.WARNING):
        logs = watch(make_job(MonitorTool(script(tmp_path, text), PARSE)), node, lines=8)
    blocks = logs["acme_monitor.log"].removesuffix("\n\n").split("\n\n")
    assert len(blocks) > 1
    assert {block.partition("\n")[2] for block in blocks} == {"\n".join(["31C 57W N/A N/A N/A"] * 200)}
    warning = f"here: monitor acme: {tmp_path}/acme-smi ended with status 14: WARNING: infoROM is corrupted"
    assert caplog.messages == [warning]


def test_a_figure_without_its_column_is_unknown_and_named_once(
    make_job: Callable[..., JobConfig], node: NodePlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    columns = {"index": ("GPU",), "power": ("POWER",), "temperature": ("TEMP", "GPU_T")}
    tool = MonitorTool(script(tmp_path, 'echo "GPU  POWER  HEAT"; echo "  0    57 W  31 C"'), columns=columns)
    with caplog.at_level(logging.WARNING):
        log = watch(make_job(tool), node, lines=8)["acme_monitor.log"]
    assert re.fullmatch(rf"({STAMP}\nN/A 57W N/A N/A N/A\n\n)+", log)
    lack = "no column TEMP or GPU_T of temperature; the columns are GPU, POWER, HEAT"
    assert caplog.messages == [f"here: monitor acme: {tmp_path}/acme-smi: {lack}"]


def test_a_missing_tool_is_reported_once(
    make_job: Callable[..., JobConfig], node: NodePlan, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        watch(make_job(MonitorTool(("no-such-smi",), PARSE)), node)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("here: monitor acme: not available: no-such-smi: ")
    assert "No such file or directory" in caplog.messages[0]


def test_a_tool_that_recovers_is_used_again(make_job: Callable[..., JobConfig], node: NodePlan, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    tool = MonitorTool(script(tmp_path, f'[ -e {flag} ] || {{ touch {flag}; exit 1; }}; echo "31C 57W"'), PARSE)
    log = watch(make_job(tool), node, until="31C")["acme_monitor.log"]
    assert re.fullmatch(rf"{STAMP}\tnot available: .*: no output\n({STAMP}\n31C 57W N/A N/A N/A\n\n)+", log)


@pytest.mark.parametrize("runtime", ["process", "docker"])
def test_the_vendors_module_is_used_where_it_works(
    make_job: Callable[..., JobConfig],
    node: NodePlan,
    runtime: str,
    fake_nvml: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_nvml))
    monkeypatch.setenv("FAKE_NVML", "gl")
    tool = MonitorTool(("echo", "31C 57W"), PARSE, module="flagperf.hosts.monitors.nvml")
    log = watch(make_job(tool, runtime=runtime), node)["acme_monitor.log"]
    assert re.fullmatch(rf"({STAMP}\n31C 57.2W 15MiB 40536MiB 0% 3600J 1410MHz\nN/A N/A N/A N/A N/A\n\n)+", log)


def test_else_the_vendors_tool_is_used(
    make_job: Callable[..., JobConfig], node: NodePlan, caplog: pytest.LogCaptureFixture
) -> None:
    tool = MonitorTool(("echo", "31C 57W"), PARSE, module="flagperf.monitors.no_such_module")
    with caplog.at_level(logging.WARNING):
        log = watch(make_job(tool), node)["acme_monitor.log"]
    assert re.fullmatch(rf"({STAMP}\n31C 57W N/A N/A N/A\n\n)+", log)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("runtime", "sources"),
    [
        pytest.param("docker", ["acme-smi"], id="in an image"),
        pytest.param("process", ["acme.nvml", "acme-smi"], id="on the host"),
    ],
)
def test_where_another_host_has_its_python(
    make_job: Callable[..., JobConfig],
    node: NodePlan,
    runtime: str,
    sources: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    elsewhere = dataclasses.replace(node, node=Node("alpha", "10.0.0.1"))
    job = make_job(MonitorTool(("acme-smi",), PARSE, module="acme.nvml"), runtime=runtime)
    with caplog.at_level(logging.INFO):
        last_monitors = [monitors(job, elsewhere)[-1] for _ in range(2)]  # two rounds
    assert [source.name for source in last_monitors[1].sources] == sources
    assert caplog.messages == (
        [
            "monitor acme: no energy counter, because acme.nvml needs Python on the host; "
            "energy is computed from the power that acme-smi shows"
        ]
        if runtime == "docker"
        else []
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            'echo "31C 57W"; echo "32C 58W"', "2 devices; device 0: 31C 57W is read as 31C 57W N/A N/A N/A", id="works"
        ),
        pytest.param(
            'echo "31C 57W"; echo a fan is slow; exit 3',
            "1 devices; device 0: 31C 57W is read as 31C 57W N/A N/A N/A; acme-smi ended with status 3: a fan is slow",
            id="warns",
        ),
        pytest.param("echo out of order; exit 3", "out of order", id="fails"),
        pytest.param("trap '' TERM; while :; do sleep 1; done", "gave no answer within 0.5 s", id="ignores SIGTERM"),
        pytest.param("echo garbage", "cannot be read (no device in it): garbage", id="garbage"),
    ],
)
def test_what_doctor_says_of_a_tool(tmp_path: Path, text: str, expected: str) -> None:
    tool = MonitorTool(script(tmp_path, text), PARSE, timeout=0.5)
    assert asyncio.run(asked(tool)).replace(f"{tmp_path}/", "") == expected


def test_what_doctor_says_of_a_tool_that_is_not_on_the_path() -> None:
    text = asyncio.run(asked(MonitorTool(("no-such-smi",), PARSE)))
    assert "no-such-smi" in text and "No such file or directory" in text


async def asked(tool: MonitorTool) -> str:
    async with LocalTransport("here") as transport:
        try:
            hardware = Hardware("A1", "a chip", memory_gib=16, power_w=None, peak_flops={})
            text, remarks = await ask_once(tool, hardware, transport)
            return "; ".join((text, *remarks))
        except ValueError as error:
            return str(error)


def test_an_error_in_the_block_stops_the_monitors(
    make_job: Callable[..., JobConfig], node: NodePlan, tmp_path: Path
) -> None:
    async def main() -> None:
        async with LocalTransport("here") as transport, running(job, node, transport, Path(node.log_dir)):
            await asyncio.sleep(0.3)
            raise RuntimeError("training failed")

    job = make_job(MonitorTool(script(tmp_path, "exec sleep 1000"), PARSE))
    with pytest.raises(RuntimeError, match="training failed"):
        asyncio.run(main())
    assert not running_processes(str(tmp_path))
    assert [path.name for path in Path(node.log_dir).iterdir() if path.name.startswith(".")] == []


def test_a_log_folder_that_cannot_be_written(
    make_job: Callable[..., JobConfig], node: NodePlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problem = "logs of monitors cannot be written: No such file or directory"

    async def main() -> None:
        async with LocalTransport("here") as transport, running(job, node, transport, tmp_path / "gone"):
            for _ in range(300):
                await asyncio.sleep(0.1)
                if problem in caplog.messages:
                    return

    job = make_job(MonitorTool(("echo", "31C 57W"), PARSE))
    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert set(caplog.messages) == {problem}  # the terminal shows a text once


def test_a_bug_keeps_its_traceback_and_stops_nothing(
    make_job: Callable[..., JobConfig],
    node: NodePlan,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a bug")

    async def main() -> None:
        async with LocalTransport("here") as transport, running(job, node, transport, Path(node.log_dir)):
            while not caplog.records:
                await asyncio.sleep(0.1)

    job = make_job(MonitorTool(("echo", "31C 57W"), PARSE))
    monkeypatch.setattr(Recorder, "feed", broken)
    asyncio.run(main())
    first = caplog.records[0]
    assert first.getMessage() == "here: the output of the monitors cannot be read"
    assert first.exc_info is not None and str(first.exc_info[1]) == "a bug"
    assert not running_processes(node.log_dir)
    assert [path.name for path in Path(node.log_dir).iterdir()] == []
