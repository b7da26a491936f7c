"""What a host is and has, read by one short shell script. Checked before a run starts, and kept as sys_info.log."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from flagperf.errors import HostError
from flagperf.schema import Command
from flagperf.transport import Transport

PROBE_TIMEOUT = 30.0  # seconds; it takes milliseconds unless a file system hangs
PORTS = range(20000, 32768)  # below Linux's ephemeral ports, so that no outgoing connection takes one meanwhile

# $1: a folder of the run, which may not be there yet; $2: glob of the accelerator's device files, or empty.
PROBE = r"""
field() { printf '%s: %s\n' "$1" "$2"; }
first() { sed -n "s/^$1[^:=]*[:=] *//p" "$2" 2>/dev/null | head -n 1 | tr -d '"'; }
place=$1
while [ ! -d "${place:-/}" ]; do
    case $place in */*) place=${place%/*} ;; *) place=. ;; esac
done
field time "$(date '+%Y-%m-%d %H:%M:%S %z')"
field epoch "$(date +%s.%N)"
field host "$(uname -n)"
field os "$(first PRETTY_NAME /etc/os-release)"
field kernel "$(uname -srm)"
field cpu "$(first 'model name' /proc/cpuinfo)"
field cores "$(getconf _NPROCESSORS_ONLN)"
field memory_kib "$(first MemTotal /proc/meminfo | tr -dc 0-9)"
field memory_available_kib "$(first MemAvailable /proc/meminfo | tr -dc 0-9)"
field shm_kib "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $2 }')"
field disk_free_kib "$(df -Pk "${place:-/}" | awk 'NR == 2 { print $4 }')"
field hardware "$(cat /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name 2>/dev/null | tr '\n' ' ')"
field devices "$([ -z "$2" ] || ls -d $2 2>/dev/null | tr '\n' ' ')"
field driver "$(head -n 1 /proc/driver/nvidia/version 2>/dev/null)"
field listening "$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    awk '$4 == "0A" { sub(/.*:/, "", $2); print $2 }' | tr '\n' ' ')"
field addresses "$(ip -o -4 addr show 2>/dev/null | awk '{ sub(/\/.*/, "", $4); print $2 "=" $4 }' | tr '\n' ' ')"
"""


@dataclass(frozen=True)
class Facts:
    """One host, as the probe saw it. A figure that the host does not tell is None."""

    fields: Mapping[str, str]  # as printed, in order: the text of sys_info.log

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

    def text(self) -> str:
        """Content of sys_info.log."""
        return "".join(f"{name}: {value}\n" for name, value in self.fields.items() if name != "listening")


async def read_facts(transport: Transport, folder: str, device_files: str | None = None) -> Facts:
    """Look at a host; `folder` is where the run will lie, `device_files` a glob that counts its accelerators."""
    command = Command(("sh", "-s", "--", folder, device_files or ""))
    done = await transport.run(command, timeout=PROBE_TIMEOUT, stdin=PROBE.encode())
    if done.exit_status != 0:
        raise HostError(transport.host, f"cannot be looked at: {done.stderr.strip() or 'the connection was lost'}")
    return Facts(dict(re.findall(r"^(\w+): (.*)$", done.stdout, re.MULTILINE)))
