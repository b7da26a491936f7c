"""Runs a node's monitors during a round, and writes FlagPerf's monitor logs. No failure here stops a training."""

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

from flagperf.config.schema.monitor_columns import INDEX
from flagperf.config.schema.monitor_tool import Table, make_table
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
SAMPLES = 2  # number of a monitor's samples between two reads of its output


def monitors(job: JobConfig, node: NodePlan) -> tuple[Monitor, ...]:
    """The monitors that the plan names for a node.

    Raises:
        ConfigError: the vendor file's `monitor` cannot be used.
    """
    interval = job.monitor.interval
    of_node = {monitor.name: monitor for monitor in node_monitors.all_of(interval, job.monitor.power_interval)}
    # cpu is also the name of a vendor; this vendor has no tool
    return tuple(of_node.get(name) or _accelerator(job, node, interval) for name in node.monitors)


def _accelerator(job: JobConfig, node: NodePlan, interval: float) -> Monitor:
    tool = job.vendor.monitor
    if tool is None:
        raise ValueError(f"vendor {job.vendor.name} has no monitor")
    interval = max(interval, tool.interval)
    table = Source(tool.command[0], Command(tool.command), make_table(tool, job.hardware), interval, tool.timeout)
    module = _module(tool, job, node, interval)
    return Monitor(job.vendor.name, (*module, table), devices=True)


def _module(tool: MonitorTool, job: JobConfig, node: NodePlan, interval: float) -> tuple[Source, ...]:
    """The tool's Python module. The launcher's interpreter runs it on the launcher's host, the ranks' elsewhere.

    Empty where the tool has no module, and for ranks in a container of another host.
    """
    if tool.module is None:
        return ()
    arguments = (tool.module, "0", f"{interval:g}")
    if node.node.same_files:
        command: tuple[str, ...] = (sys.executable, "-m", *arguments)
    elif job.runtime.kind == "process" and job.framework.launch[0] == "{python}":
        environment = (f"{name}={value}" for name, value in node.launch.env.items())  # has the path to flagperf's code
        command = ("env", *environment, node.launch.argv[0], "-m", *arguments)
    else:
        _say_once(
            f"monitor {job.vendor.name}: no energy counter, because {tool.module} needs Python on the host; "
            f"energy is computed from the power that {tool.command[0]} shows"
        )
        return ()
    return (Source(tool.module, Command(command), _device_lines, interval, streams=True),)


@functools.cache
def _say_once(message: str) -> None:
    """Log a message once in this process."""
    log.info(message)


def _device_lines(text: str) -> list[str]:
    lines = text.splitlines()
    if not lines or not all(parse_line(line) for line in lines):
        raise ValueError("not one line for each device")
    return lines


@contextlib.asynccontextmanager
async def running(job: JobConfig, node: NodePlan, transport: Transport, folder: Path) -> AsyncIterator[None]:
    """Run the monitors of a node inside the block.

    Args:
        folder: the node's log folder on the launcher, for the logs. Hidden files of `node.log_dir` on the host hold the
            raw output of the commands.
    """
    recorders = {
        f"{node.log_dir}/.{monitor.log}": Recorder(monitor, transport.host, folder) for monitor in monitors(job, node)
    }
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
        await _catch_up(recorders, transport)  # before the stop: a tool may print other text when it is stopped
        with contextlib.suppress(HostError):  # the training reports a lost host
            await process.stop()
            await transport.run(Command(("rm", "-f", shell_log, *_files(recorders))), timeout=REMOVE_TIMEOUT)


def _files(outputs: Iterable[str]) -> Iterator[str]:
    """The files of the shell on the node."""
    for output in outputs:
        yield from (output, f"{output}.sample")


async def _follow(recorders: dict[str, Recorder], transport: Transport, interval: float) -> None:
    """Read the output of the monitors until cancelled."""
    for count in itertools.count(1):
        await asyncio.sleep(interval)  # not often: each read costs time, most of all over ssh
        ready = {output: recorder for output, recorder in recorders.items() if recorder.is_due(count, interval)}
        await _catch_up(ready, transport)


async def _catch_up(recorders: dict[str, Recorder], transport: Transport) -> None:
    """Read the output since the last call. Raises nothing, because no monitor may stop a training."""
    try:
        for output, recorder in recorders.items():
            piece = await transport.read(output, recorder.offset)
            while piece:
                recorder.feed(piece)
                if len(piece) < LEAST_READ:  # a short piece is the last: another read would cost as much
                    break
                piece = await transport.read(output, recorder.offset)
    except HostError:
        pass  # the next call reads the missed output
    except Exception:  # a bug
        log.exception("%s: the output of the monitors cannot be read", transport.host)


@dataclass
class Recorder:
    """Writes a monitor's samples into its log. Logs each kind of problem once, in the run's and the monitor's log."""

    monitor: Monitor
    host: str
    folder: Path
    offset: int = 0  # bytes of the command's output that have been read
    _samples: Samples = field(default_factory=Samples)
    _reported: set[int | str] = field(default_factory=set)  # kinds of problems: exit statuses, "write"
    _failed_sources: list[str] = field(default_factory=list)  # why earlier sources are not used

    def is_due(self, count: int, interval: float) -> bool:
        """Whether to read the output after `count` intervals of `interval` seconds: not more often than it samples."""
        return count % max(1, int(min(source.interval for source in self.monitor.sources) // interval)) == 0

    def feed(self, piece: bytes) -> None:
        """Record a piece of the monitor's output."""
        self.offset += len(piece)
        text = "".join(self._record(sample) for sample in self._samples.feed(piece))
        if not text:
            return
        try:
            with (self.folder / self.monitor.log).open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            if "write" not in self._reported:
                self._reported.add("write")
                # One text for all monitors: a run shows the text once.
                log.warning("logs of monitors cannot be written: %s", error.strerror)

    def _record(self, sample: Sample) -> str:
        """The text of the log for a sample."""
        time = stamp(sample.time)
        source = self.monitor.sources[sample.source]
        try:
            lines = figures(source, sample)
        except ValueError as error:
            return self._problem_line(time, sample, str(error))
        for kind, remark in remarks(source, sample).items():
            if self._is_new(kind):
                log.log(self._level, "%s: monitor %s: %s", self.host, self.monitor.name, remark)
        if self.monitor.devices:
            return "\n".join([time, *lines, "", ""])
        return "".join(f"{time}\t{line}\n" for line in lines)

    def _problem_line(self, time: str, sample: Sample, reason: str) -> str:
        """The line of the log for a sample without figures; empty for a known kind of problem."""
        problem = f"{self.monitor.sources[sample.source].name}: {reason}"
        if sample.status != 0 and sample.source < len(self.monitor.sources) - 1:
            self._failed_sources.append(problem)
            return ""
        problem = NOT_AVAILABLE + "; ".join([*self._failed_sources, problem])
        if not self._is_new(sample.status):
            return ""
        log.log(self._level, "%s: monitor %s: %s", self.host, self.monitor.name, problem)
        return f"{time}\t{problem}\n"

    @property
    def _level(self) -> int:
        return logging.WARNING if self.monitor.expected else logging.INFO

    def _is_new(self, kind: int | str) -> bool:
        """Whether a kind of problem occurs the first time."""
        is_new = kind not in self._reported
        self._reported.add(kind)
        return is_new


def figures(source: Source, sample: Sample) -> list[str]:
    """The lines of the log for a sample. Raises ValueError, with the reason, where the sample has no figures.

    Figures count with any exit status. For some tools the status is a warning: that of a device, or of another figure.
    """
    if sample.status in TIMED_OUT:
        raise ValueError(f"gave no answer within {source.timeout:g} s")
    if sample.status == TOO_LONG:
        raise ValueError("printed more than 1 MiB")
    try:
        return source.read(sample.text)
    except (ValueError, LookupError) as error:
        if sample.status != 0:
            raise ValueError(_first_line(sample.text)) from None
        raise ValueError(f"cannot be read ({error}): {_first_line(sample.text)}") from None


def remarks(source: Source, sample: Sample) -> dict[str, str]:
    """What a user should know of a sample with figures: kind → text."""
    found: dict[str, str] = {}
    table = source.read if isinstance(source.read, Table) else None
    if sample.status != 0:
        others = "\n".join(table.last.others) if table else sample.text
        found["status"] = f"{source.name} ended with status {sample.status}: {_first_line(others, 'no message')}"
    if table:
        found |= {name: f"{source.name}: {why}" for name, why in table.last.lacks.items()}
    return found


async def ask_once(tool: MonitorTool, hardware: Hardware, transport: Transport) -> tuple[str, list[str]]:
    """Describe the output of a vendor's tool on a host: the number of devices, and how the first device is read.

    Returns:
        The description, and what a user should know of the output.

    Raises:
        ValueError: the output has no figures; the text says why.
        HostError: the host is lost.
    """
    table = make_table(tool, hardware)
    source = Source(tool.command[0], Command(tool.command), table, tool.interval, tool.timeout)
    limited = shell(LIMITED, f"{tool.timeout:g}", *tool.command)
    completed = await transport.run(limited, timeout=tool.timeout + REMOVE_TIMEOUT)
    status = 1 if completed.exit_status is None else completed.exit_status
    sample = Sample(0, 0, status, completed.stdout + completed.stderr)
    lines = figures(source, sample)
    row = table.last.rows[0]
    device = row.figures.get(INDEX) or "0"
    text = f"{len(lines)} devices; device {device}: {' '.join(row.text.split())} is read as {lines[int(device)]}"
    return text, list(remarks(source, sample).values())


def _first_line(text: str, otherwise: str = "no output") -> str:
    """The first line that is not empty, without the prefix of the shell."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), otherwise)
    return re.sub(r"^(flagperf|(ba)?sh): (line )?\d+: ", "", line)[:200]
