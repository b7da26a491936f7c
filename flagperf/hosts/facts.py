"""What a host is and has, read by one short shell script. Checked before a run starts, and kept as sys_info.log."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flagperf.command import Command
from flagperf.config.values import MonitorTool
from flagperf.errors import HostError
from flagperf.hosts.transport import Transport

PROBE_TIMEOUT = 30.0  # seconds; it takes milliseconds unless a file system hangs
TOOL_OUTPUT = 8192  # bytes of a tool's output that are kept
PORTS = range(20000, 32768)  # below Linux's ephemeral ports, so that no outgoing connection takes one meanwhile
PASSING = ("epoch", "listening")  # facts of a moment, which sys_info.log leaves out
ABSENT = {"devices": "none"}  # what sys_info.log says where others are "unknown"

# $1: a folder of the run, which may not be there yet; $2: glob of the accelerator's device files, or empty.
# Few processes, because all hosts of a cluster are looked at at once: one awk reads what the kernel tells in files.
PROBE = r"""
place=$1
while [ ! -d "${place:-/}" ]; do
    case $place in */*) place=${place%/*} ;; *) place=. ;; esac
done
files=
for file in /etc/os-release /proc/cpuinfo /proc/meminfo /proc/net/tcp /proc/net/tcp6 /proc/driver/nvidia/version \
    /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name; do
    [ -r "$file" ] && files="$files $file"
done
date '+time: %Y-%m-%d %H:%M:%S %z%nepoch: %s.%N'
{
    echo "#kernel"; uname -nsrm
    echo "#devices"; for file in $2; do [ -e "$file" ] && echo "$file"; done
    echo "#shm"; df -Pk /dev/shm
    echo "#disk"; df -Pk "${place:-/}"
    echo "#addresses"; ip -o -4 addr show
} 2>/dev/null | awk '
    function value(line) { sub(/^[^:=]*[:=][ \t]*/, "", line); gsub(/"/, "", line); return line }
    NR == FNR && /^#/ { part = $1; row = 0; next }
    NR == FNR && part == "#kernel" { host = $2; kernel = $1 " " $3 " " $4 }
    NR == FNR && part == "#devices" { devices = devices $0 " " }
    NR == FNR && part == "#shm" && ++row == 2 { shm = $2 }
    NR == FNR && part == "#disk" && ++row == 2 { disk = $4 }
    NR == FNR && part == "#addresses" { sub(/\/.*/, "", $4); addresses = addresses $2 "=" $4 " " }
    NR == FNR { next }
    FILENAME ~ /os-release$/ && /^PRETTY_NAME=/ { os = value($0) }
    FILENAME ~ /cpuinfo$/ && /^processor/ { cores++ }
    FILENAME ~ /cpuinfo$/ && /^model name/ && cpu == "" { cpu = value($0) }
    FILENAME ~ /meminfo$/ && /^MemTotal:/ { total = $2 }
    FILENAME ~ /meminfo$/ && /^MemAvailable:/ { available = $2 }
    FILENAME ~ /tcp6?$/ && $4 == "0A" { sub(/.*:/, "", $2); listening = listening $2 " " }
    FILENAME ~ /nvidia/ && FNR == 1 { driver = $0 }
    FILENAME ~ /dmi/ { hardware = hardware $0 " " }
    END {
        print "host: " host; print "os: " os; print "kernel: " kernel; print "cpu: " cpu; print "cores: " cores
        print "memory_kib: " total; print "memory_available_kib: " available
        print "shm_kib: " shm; print "disk_free_kib: " disk; print "hardware: " hardware
        print "devices: " devices; print "driver: " driver; print "listening: " listening
        print "addresses: " addresses
    }' - $files
"""


@dataclass(frozen=True)
class Facts:
    """One host, as the probe saw it. A figure that the host does not tell is None."""

    fields: Mapping[str, str]  # as printed, in order

    def number(self, name: str) -> int | None:
        value = self.fields.get(name, "")
        return int(value) if value.isdigit() else None

    @property
    def devices(self) -> int:
        """Accelerators counted by their device files."""
        return len(self.fields.get("devices", "").split())

    @property
    def listening(self) -> frozenset[int]:
        """TCP ports that are taken."""
        return frozenset(int(port, 16) for port in self.fields.get("listening", "").split())

    def interface(self, address: str) -> str | None:
        """The network interface that holds an IPv4 address."""
        pairs = (pair.split("=", 1) for pair in self.fields.get("addresses", "").split())
        return next((name for name, held in pairs if held == address), None)

    def free_port(self) -> int:
        """A TCP port that nobody listens on; random, so that two runs at once choose different ones."""
        taken = self.listening
        return random.choice([port for port in PORTS if port not in taken])


def sys_info(fields: Mapping[str, str]) -> str:
    """Content of sys_info.log, from what is known of a host and of where its ranks run."""
    shown = {name: value.strip() for name, value in fields.items() if name not in PASSING}
    return "".join(f"{name}: {value or ABSENT.get(name, 'unknown')}\n" for name, value in shown.items())


async def read_facts(transport: Transport, folder: str, device_files: str | None = None) -> Facts:
    """Look at a host; `folder` is where the run will lie, `device_files` a glob that counts its accelerators."""
    command = Command(("sh", "-s", "--", folder, device_files or ""))
    done = await transport.run(command, timeout=PROBE_TIMEOUT, stdin=PROBE.encode())
    if done.exit_status != 0:
        raise HostError(transport.host, f"cannot be looked at: {done.stderr.strip() or 'the connection was lost'}")
    return Facts(dict(re.findall(r"^(\w+): (.*)$", done.stdout, re.MULTILINE)))


async def add_tool(path: Path, transport: Transport, tool: MonitorTool) -> None:
    """Add to sys_info.log what the vendor's tool prints of the accelerators, or why it does not."""
    words = ("sh", "-c", f'"$@" 2>&1 | head -c {TOOL_OUTPUT}', "flagperf", *tool.command)
    try:
        told = (await transport.run(Command(words), timeout=tool.timeout)).stdout
    except HostError as error:
        told = error.problem
    lines = ["accelerators, by the vendor's tool:", *told.strip("\n").splitlines()]
    with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:  # a full disk is told by others
        file.write("\n" + "\n    ".join(lines) + "\n")
