"""The monitors of every Linux node: cpu, memory and power. Defines their commands and reads their output."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flagperf.contract.command import Command
from flagperf.contract.monitor_log import HOST, host_line
from flagperf.hosts.monitors.loop import Monitor, Source
from flagperf.hosts.shell import script, shell

DCMI, SDR, RAPL = (shell(script(__file__, name)) for name in ("dcmi.sh", "sdr.sh", "rapl.sh"))


def all_of(interval: float, power_interval: float) -> tuple[Monitor, ...]:
    """The monitor of each of NODE_FIGURES, and of HOST_FIGURES. Intervals in seconds."""
    return cpu(interval), memory(interval), power(interval, power_interval), host(interval)


def cpu(interval: float) -> Monitor:
    """Busy fraction of the node's CPU time since the previous sample, 0 to 1."""
    return Monitor("cpu", (Source("/proc/stat", Command(("head", "-n", "1", "/proc/stat")), BusyFraction(), interval),))


def memory(interval: float) -> Monitor:
    """Fraction of the node's memory that is not available to new programs, 0 to 1."""
    argv = ("grep", "-E", "^Mem(Total|Available):", "/proc/meminfo")
    return Monitor("mem", (Source("/proc/meminfo", Command(argv), used_fraction, interval),))


def power(interval: float, power_interval: float) -> Monitor:
    """Watts of the whole node by its management controller, else of processors and memory by RAPL's counters.

    A management controller answers slowly, and is asked every `power_interval` seconds only.
    """
    sources = (
        Source("ipmitool dcmi", DCMI, largest_watts, power_interval),
        Source("ipmitool sdr", SDR, largest_watts, power_interval, timeout=30),
        Source("RAPL", RAPL, RaplPower(), interval),
    )
    return Monitor("pwr", sources, expected=False)


def host(interval: float) -> Monitor:
    """What may slow a rank down: load, page faults, errors of the network, clock of the processors."""
    return Monitor(
        HOST, (Source("/proc", shell(script(__file__, "host.sh")), HostFigures(), interval),), expected=False
    )


@dataclass
class HostFigures:
    """Lines `file:line` of the kernel's files → HOST_FIGURES. Some figures are rates since the previous sample."""

    _before: dict[str, float] = field(default_factory=dict)
    _uptime: float = 0.0

    def __call__(self, text: str) -> list[str]:
        """The line of the log for a sample; none for the first sample."""
        lines = [line.partition(":")[::2] for line in text.splitlines()]
        of_file: dict[str, list[list[str]]] = {}
        for path, line in lines:
            of_file.setdefault(path, []).append(line.replace(":", " ").split())
        counts: dict[str, float] = {}
        for words in of_file.get("/proc/vmstat", ()):
            counts["page_faults"] = float(words[1])
        interfaces = [words for words in of_file.get("/proc/net/dev", ()) if words[0] != "lo"]
        if interfaces:  # errors and drops, received and sent: columns 3, 4, 11, 12
            counts["network_errors"] = sum(float(words[column]) for words in interfaces for column in (3, 4, 11, 12))
        if len(tcp := [words for words in of_file.get("/proc/net/snmp", ()) if words[0] == "Tcp"]) == 2:
            counts["retransmits"] = float(dict(zip(*tcp, strict=True))["RetransSegs"])
        uptime = float(of_file["/proc/uptime"][0][0])
        before, began = self._before, self._uptime
        self._before, self._uptime = counts, uptime
        if not 0 < began < uptime:
            return []
        seconds = uptime - began
        rates = {name: max(0.0, count - before[name]) / seconds for name, count in counts.items() if name in before}
        clocks = [float(rows[0][0]) / 1000 for path, rows in of_file.items() if path.endswith("scaling_cur_freq")]
        known = {"load": float(of_file["/proc/loadavg"][0][0]), **rates}
        return [host_line({**known, "host_clock": sum(clocks) / len(clocks)} if clocks else known)]


@dataclass
class BusyFraction:
    """First line of /proc/stat → busy share of the time since the previous sample."""

    _before: tuple[int, int] | None = None

    def __call__(self, text: str) -> list[str]:
        """The line of the log for a sample; none for the first sample."""
        times = [int(word) for word in text.removeprefix("cpu ").split()][:8]  # guest time is part of user time
        now = (sum(times) - times[3] - times[4], sum(times))  # idle and iowait are not busy
        before, self._before = self._before, now
        if before is None or now[1] == before[1]:
            return []
        busy = (now[0] - before[0]) / (now[1] - before[1])
        return [f"{min(max(busy, 0.0), 1.0):.4f}"]  # proc(5): iowait may decrease


def used_fraction(text: str) -> list[str]:
    """/proc/meminfo's total and available memory → used share."""
    total, available = (int(figure) for figure in re.findall(r"(\d+) kB", text))
    return [f"{1 - available / total:.4f}"]


def largest_watts(text: str) -> list[str]:
    """The largest reading of ipmitool. It is the reading of the node; the others belong to parts of the node."""
    readings = [float(figure) for figure in re.findall(r"([\d.]+) Watts", text, re.IGNORECASE)]
    if not any(readings):
        raise ValueError("no reading in watts")
    return [f"{max(readings):g}"]


@dataclass
class RaplPower:
    """RAPL's energy counters → mean watts since the previous sample, and joules since the first sample.

    Packages count, and main memory where it has its own domain. Domains of cores and of the platform overlap with them.
    """

    _before: dict[str, int] = field(default_factory=dict)
    _uptime: float = 0.0
    _joules: float = 0.0

    def __call__(self, text: str) -> list[str]:
        """The line of the log for a sample; none for the first sample."""
        values = dict(re.findall(r"^(\S+/\w+):(.*)$", text, re.MULTILINE))
        uptime = float(text.splitlines()[-1].split()[0])
        names = {path.removesuffix("/name"): name for path, name in values.items() if path.endswith("/name")}
        domains = [domain for domain, name in names.items() if name.startswith(("package", "dram"))]
        if not domains:
            raise ValueError("no RAPL domain of a package")
        now = {domain: int(values[f"{domain}/energy_uj"]) for domain in domains}
        before, seconds = self._before, uptime - self._uptime
        self._before, self._uptime = now, uptime
        if now.keys() != before.keys() or seconds <= 0:
            return []
        # A counter restarts at zero after its largest value.
        spent = sum(
            (now[domain] - before[domain]) % (int(values[f"{domain}/max_energy_range_uj"]) + 1) for domain in domains
        )
        self._joules += spent / 1e6
        return [f"{spent / 1e6 / seconds:.2f}\t{self._joules:.2f}"]
