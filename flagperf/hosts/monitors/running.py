"""Runs a node's monitors while a round runs, and writes FlagPerf's monitor logs. Nothing in here stops a training."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import re
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flagperf.config.schema.monitor_tool import INDEX, make_table
from flagperf.config.schema.platform import Hardware, MonitorTool
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.contract.monitor_log import NOT_AVAILABLE, parse_line, stamp
from flagperf.errors import HostError
from flagperf.hosts.monitors import node as node_monitors
from flagperf.hosts.monitors.loop import Monitor, Sample, Samples, Source, node_script
from flagperf.hosts.shell import LIMITED, shell
from flagperf.hosts.transport import LEAST_READ, Transport
from flagperf.plan.values import NodePlan

log = logging.getLogger(__name__)

TIMED_OUT = (124, 137)  # exit statuses of timeout(1)
TOO_LONG = 153  # killed by SIGXFSZ
STOP_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
REMOVE_TIMEOUT = 10.0  # seconds
SAMPLES = 2  # of a monitor, between two looks at what it has printed


def monitors(job: JobConfig, node: NodePlan) -> tuple[Monitor, ...]:
    """The monitors of a node, as its plan names them.

    Raises:
        ConfigError: the vendor file's `monitor` cannot be used.
    """
    interval = job.monitor.interval
    known = {monitor.name: monitor for monitor in node_monitors.all_of(interval, job.monitor.power_interval)}
    # cpu is also the name of a vendor, one without a tool
    return tuple(known[name] if name in known else _accelerator(job, node, interval) for name in node.monitors)


def _accelerator(job: JobConfig, node: NodePlan, interval: float) -> Monitor:
    tool = job.vendor.monitor
    if tool is None:
        raise ValueError(f"vendor {job.vendor.name} has no monitor")
    interval = max(interval, tool.interval)
    table = Source(tool.command[0], Command(tool.command), make_table(tool, job.hardware), interval, tool.timeout)
    module = _module(tool, job, node, interval)
    return Monitor(job.vendor.name, (*module, table), devices=True)


def _module(tool: MonitorTool, job: JobConfig, node: NodePlan, interval: float) -> tuple[Source, ...]:
    """The tool's Python module, run by the launcher's interpreter where that is, and by that of the ranks elsewhere.

    Empty where the tool has no such module, and on another host whose ranks run in a container.
    """
    if tool.module is None:
        return ()
    arguments = (tool.module, "0", f"{interval:g}")
    if node.node.same_files:
        command: tuple[str, ...] = (sys.executable, "-m", *arguments)
    elif job.runtime.kind == "process" and job.framework.launch[0] == "{python}":
        environment = (f"{name}={value}" for name, value in node.launch.env.items())  # with the path to flagperf's code
        command = ("env", *environment, node.launch.argv[0], "-m", *arguments)
    else:
        _say_once(
            f"monitor {job.vendor.name}: no energy counter, for {tool.module} needs Python on the host; "
            f"energy is made from the power that {tool.command[0]} shows"
        )
        return ()
    return (Source(tool.module, Command(command), _device_lines, interval, streams=True),)


@functools.cache
def _say_once(message: str) -> None:
    """Log a message at the first node and round only."""
    log.info(message)


def _device_lines(text: str) -> list[str]:
    lines = text.splitlines()
    if not lines or not all(parse_line(line) for line in lines):
        raise ValueError("not one line a device")
    return lines


@contextlib.asynccontextmanager
async def running(job: JobConfig, node: NodePlan, transport: Transport, folder: Path) -> AsyncIterator[None]:
    """Run the monitors of a node inside the block.

    Args:
        folder: the node's log folder on the launcher, where the logs are written. The commands' own output lies in
            hidden files of `node.log_dir` on the host meanwhile.
    """
    recorders = {f"{node.log_dir}/.{one.log}": Recorder(one, transport.host, folder) for one in monitors(job, node)}
    text = node_script({output: recorder.monitor for output, recorder in recorders.items()})
    shell_log = f"{node.log_dir}/.monitors.log"
    try:
        process = await transport.start(shell(text), log=shell_log, grace=STOP_GRACE)
    except HostError as error:
        log.warning("no monitors: %s", error)
        yield
        return
    following = asyncio.create_task(_follow(recorders, transport, SAMPLES * job.monitor.interval))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait({following})
        await _catch_up(recorders, transport)  # before the stop: what a tool prints when it is stopped is no sample
        with contextlib.suppress(HostError):  # a lost host is reported by whoever trains on it
            await process.stop()
            await transport.run(Command(("rm", "-f", shell_log, *_files(recorders))), timeout=REMOVE_TIMEOUT)


def _files(outputs: Iterable[str]) -> Iterator[str]:
    """What the shell leaves on the node."""
    for output in outputs:
        yield from (output, f"{output}.sample")


async def _follow(recorders: dict[str, Recorder], transport: Transport, interval: float) -> None:
    """Read what the monitors print, until cancelled."""
    for count in itertools.count(1):
        await asyncio.sleep(interval)  # nobody waits for the figures, and each look costs, most of all over ssh
        await _catch_up({output: one for output, one in recorders.items() if one.is_due(count, interval)}, transport)


async def _catch_up(recorders: dict[str, Recorder], transport: Transport) -> None:
    """Read what the monitors printed since the last call. Raises nothing, for no monitor stops a training."""
    try:
        for output, recorder in recorders.items():
            piece = await transport.read(output, recorder.offset)
            while piece:
                recorder.feed(piece)
                more = len(piece) >= LEAST_READ  # else it was the end, and to be told so costs as much as a piece
                piece = await transport.read(output, recorder.offset) if more else b""
    except HostError:
        pass  # the next call reads what was printed while the connection was down
    except Exception:  # a bug
        log.exception("%s: what the monitors printed cannot be read", transport.host)


@dataclass
class Recorder:
    """Turns a monitor's samples into its log. A kind of problem is told once, in the run's and in the monitor's log."""

    monitor: Monitor
    host: str
    folder: Path
    offset: int = 0  # bytes of the command's output that were read
    _samples: Samples = field(default_factory=Samples)
    _said: set[int | str] = field(default_factory=set)  # kinds of problems: exit statuses, "write"
    _passed_over: list[str] = field(default_factory=list)  # why earlier sources are not used

    def is_due(self, count: int, interval: float) -> bool:
        """Whether to look at the count-th of looks that are `interval` seconds apart: not oftener than it samples."""
        return count % max(1, int(min(source.interval for source in self.monitor.sources) // interval)) == 0

    def feed(self, piece: bytes) -> None:
        self.offset += len(piece)
        text = "".join(self._record(sample) for sample in self._samples.feed(piece))
        if not text:
            return
        try:
            with (self.folder / self.monitor.log).open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            if "write" not in self._said:
                self._said.add("write")
                log.warning("logs of monitors cannot be written: %s", error.strerror)  # one text: shown once in a run

    def _record(self, sample: Sample) -> str:
        """The text that a sample adds to the log."""
        time = stamp(sample.time)
        source = self.monitor.sources[sample.source]
        try:
            lines = figures(source, sample)
        except ValueError as error:
            return self._missing(time, sample, str(error))
        if self.monitor.devices:
            return "\n".join([time, *lines, "", ""])
        return "".join(f"{time}\t{line}\n" for line in lines)

    def _missing(self, time: str, sample: Sample, why: str) -> str:
        """The line for a sample without figures, the first time."""
        problem = f"{self.monitor.sources[sample.source].name}: {why}"
        if sample.status != 0 and sample.source < len(self.monitor.sources) - 1:
            self._passed_over.append(problem)
            return ""
        problem = NOT_AVAILABLE + "; ".join([*self._passed_over, problem])
        return f"{time}\t{problem}\n" if self._say(sample.status, problem) else ""

    def _say(self, kind: int | str, problem: str) -> bool:
        """Log a kind of problem the first time. Returns whether it was the first time."""
        if kind in self._said:
            return False
        self._said.add(kind)
        level = logging.WARNING if self.monitor.expected else logging.INFO
        log.log(level, "%s: monitor %s: %s", self.host, self.monitor.name, problem)
        return True


def figures(source: Source, sample: Sample) -> list[str]:
    """The lines that a sample adds to the log. Raises ValueError: why there are none."""
    if sample.status in TIMED_OUT:
        raise ValueError(f"gave no answer within {source.timeout:g} s")
    if sample.status == TOO_LONG:
        raise ValueError("printed more than 1 MiB")
    if sample.status != 0:
        raise ValueError(_first_line(sample.text))
    try:
        return source.read(sample.text)
    except (ValueError, LookupError) as error:
        raise ValueError(f"cannot be read ({error}): {_first_line(sample.text)}") from None


async def ask_once(tool: MonitorTool, hardware: Hardware, transport: Transport) -> str:
    """What a vendor's tool tells of the devices of a host, in words: how many, and how the first of them is read.

    Raises:
        ValueError: why it tells nothing.
        HostError: the host is lost.
    """
    table = make_table(tool, hardware)
    source = Source(tool.command[0], Command(tool.command), table, tool.interval, tool.timeout)
    limited = shell(LIMITED, f"{tool.timeout:g}", *tool.command)
    done = await transport.run(limited, timeout=tool.timeout + REMOVE_TIMEOUT)
    status = 1 if done.exit_status is None else done.exit_status
    lines = figures(source, Sample(0, 0, status, done.stdout + done.stderr))
    shown = next(table.pattern.finditer(done.stdout + done.stderr))
    device = shown[INDEX] if INDEX in table.pattern.groupindex else "0"
    return f"{len(lines)} devices; device {device}: {' '.join(shown[0].split())} is read as {lines[int(device)]}"


def _first_line(text: str) -> str:
    """The first line that says something, without the shell's own prefix."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no output")
    return re.sub(r"^(flagperf|(ba)?sh): (line )?\d+: ", "", line)[:200]
