"""The monitors of pods: the shell script that runs them in each pod, and the logs that are made of its output.

A pod has no launcher that reads the output during the run. So the raw output stands in hidden files among the pod's
logs until these are collected.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from flagperf.config.schema.monitor_tool import make_table
from flagperf.config.schema.platform import Hardware, MonitorTool
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import build
from flagperf.contract.command import Command
from flagperf.contract.regular import read_yaml
from flagperf.hosts.monitors import node
from flagperf.hosts.monitors.loop import LOOP, Monitor, Source
from flagperf.hosts.monitors.running import Recorder

FILE = "monitors.yaml"  # in the folder of a round: what its pods measure
SCRIPT = "monitors.sh"  # of a pod
BEGIN = """\
#!/bin/sh
# Runs the monitors of a node until it is stopped. Their output goes into hidden files.
#   $1  the node's log folder
mkdir -p "$1" && cd "$1" || exit
pids=
trap 'kill $pids 2>/dev/null; exit' TERM INT
"""


@dataclass(frozen=True)
class Measured:
    """What the pods of a round measure, and what their output is read with."""

    vendor: str
    interval: float  # seconds, as those of conf/config.yaml: monitor
    power_interval: float
    tool: MonitorTool | None  # of the vendor
    devices_per_card: int = 1
    memory_gib: float | None = None  # of a device

    def monitors(self) -> list[Monitor]:
        """The monitors of a node. Raises ConfigError where the vendor's tool cannot be used."""
        monitors = list(node.all_of(self.interval, self.power_interval))
        if tool := self.tool:
            hardware = Hardware("", "", self.memory_gib, None, {}, devices_per_card=self.devices_per_card)
            interval = max(self.interval, tool.interval)
            source = Source(tool.command[0], Command(tool.command), make_table(tool, hardware), interval, tool.timeout)
            monitors.append(Monitor(self.vendor, (source,), devices=True))
        return monitors

    def script(self) -> str:
        """The text of the script."""
        starts = (f'{monitor.script(f".{monitor.log}")}\npids="$pids $!"\n' for monitor in self.monitors())
        return "".join((BEGIN, LOOP, *starts, "wait\n"))

    def text(self) -> str:
        """The text of FILE."""
        return yaml.safe_dump(asdict(self) | {"tool": self.tool and _plain(self.tool)}, sort_keys=False)


def measured(job: JobConfig) -> Measured:
    """What the pods of a job measure."""
    vendor, hardware, times = job.vendor, job.hardware, job.monitor
    card = hardware.devices_per_card
    return Measured(vendor.name, times.interval, times.power_interval, vendor.monitor, card, hardware.memory_gib)


def record(folder: Path, host: str) -> None:
    """Write the monitors' logs of a node, and remove the raw output.

    Args:
        folder: of the node's collected logs. The folder of the round is above it.
        host: the node's name.
    """
    file = folder.parent / FILE
    if not file.is_file():  # manifests of an older flagperf
        return
    for monitor in build(Measured, read_yaml(file), "", lambda _: str(file)).monitors():
        output = folder / f".{monitor.log}"
        if output.is_file():
            Recorder(monitor, host, folder).feed(output.read_bytes())
            output.unlink()
        output.with_name(f"{output.name}.sample").unlink(missing_ok=True)


def _plain(tool: MonitorTool) -> dict[str, object]:
    """The tool in plain values."""
    columns = {name: list(headings) for name, headings in tool.columns.items()}
    return {**asdict(tool), "command": list(tool.command), "units": dict(tool.units), "columns": columns}
