"""Reads the facts of a host with one short shell script: for the checks before a run, and for sys_info.log."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from flagperf.config.schema.platform import MonitorTool
from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts.leftovers import CLAIMED
from flagperf.hosts.shell import LIMITED, script, shell
from flagperf.hosts.transport import Completed, Transport
from flagperf.plain import plain

LOOK_TIMEOUT = 30.0  # seconds; the script takes milliseconds unless a file system hangs
TOOL_OUTPUT = 8192  # bytes of a tool's output that are kept
PORTS = range(20000, 32768)  # below Linux's ephemeral ports, so that no outgoing connection takes a chosen port
PASSING = ("listening", "oom_kills", "inodes_free", "folder", "system")  # temporary or an identity: not in sys_info.log
PORT_FILES = "/proc/net/tcp /proc/net/tcp6"
SCRIPT = script(__file__, "facts.sh") + CLAIMED  # one command: a session of ssh costs as much as a script
ABSENT = {"devices": "none"}  # texts of sys_info.log for missing facts; the others are "unknown"


@dataclass(frozen=True)
class Facts:
    """The facts of one host."""

    fields: Mapping[str, str]  # in the order of the script's output
    claims: Completed | None = None  # the output of claimed.sh; None: not requested, or the folder is missing

    def number(self, name: str) -> int | None:
        """A fact that is a whole number; None where the host does not provide the fact."""
        value = self.fields.get(name, "")
        return int(value) if value.isdigit() else None

    @property
    def devices(self) -> int:
        """Number of accelerators, counted by their device files."""
        return len(self.fields.get("devices", "").split())

    @property
    def folder(self) -> str:
        """Identifies the folder of the run, or its nearest existing parent; empty where unknown.

        "network SOURCE INODE" on a network file system, else "host BOOT_ID DEVICE:INODE".
        """
        return self.fields.get("folder", "")

    @property
    def system(self) -> str:
        """Identifies the running system, "BOOT_ID MOUNT_NAMESPACE"; empty where unknown."""
        return self.fields.get("system", "")

    @property
    def listening(self) -> frozenset[int]:
        """TCP ports on which a process listens."""
        return frozenset(int(port, 16) for port in self.fields.get("listening", "").split())

    def interface(self, address: str) -> str | None:
        """The network interface with an IP address; None where no interface has the address."""
        pairs = (pair.split("=", 1) for pair in self.fields.get("addresses", "").split())
        return next((name for name, value in pairs if _ip(value) == _ip(address) is not None), None)

    def free_port(self) -> int:
        """A random free TCP port. Runs that start at the same time choose different ports.

        Raises:
            HostError: all ports are taken.
        """
        free = sorted(set(PORTS) - self.listening)
        if not free:
            problem = f"no TCP port from {PORTS.start} to {PORTS.stop - 1} is free for the ranks"
            raise HostError(self.fields.get("host", ""), problem, advice="give one: cluster.rendezvous.port")
        return random.choice(free)


def _ip(address: str) -> IPv4Address | IPv6Address | None:
    """The IP address of a text; one IPv6 address has several texts."""
    try:
        return ip_address(address.partition("%")[0])
    except ValueError:
        return None


def sys_info(fields: Mapping[str, str]) -> str:
    """The content of sys_info.log: facts of a host and of its ranks' environment, without control characters."""
    shown = {name: plain(value.strip()) for name, value in fields.items() if name not in PASSING}
    return "".join(f"{name}: {value or ABSENT.get(name, 'unknown')}\n" for name, value in shown.items())


async def read_facts(
    transport: Transport,
    folder: str,
    device_files: str | None = None,
    *,
    ports: bool = True,
    work_dir: str = "",
) -> Facts:
    """Run the script on a host.

    Args:
        folder: the future folder of the run.
        device_files: glob of the accelerators' device files.
        ports: whether to list the TCP ports that are in use.
        work_dir: search this folder for claimed folders, for `flagperf.hosts.leftovers`; "": do not search.
    """
    command = Command(("sh", "-s", "--", folder, device_files or "", PORT_FILES if ports else "", work_dir))
    completed = await transport.run(command, timeout=LOOK_TIMEOUT, stdin=SCRIPT.encode())
    facts, separator, claims = completed.stdout.partition("\n---\n")
    if completed.exit_status != 0 and not separator:
        reason = completed.stderr.strip() or "the connection was lost"
        raise HostError(transport.host, f"facts cannot be read: {reason}")
    fields = {"time": _time_of(transport), **dict(re.findall(r"^(\w+): (.*)$", facts, re.MULTILINE))}
    return Facts(fields, replace(completed, stdout=claims) if separator else None)


def _time_of(transport: Transport) -> str:
    """The time of the host's clock, in the launcher's time zone."""
    now = datetime.now(timezone.utc) + timedelta(seconds=transport.clock_offset)
    return now.astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


async def add_tool(path: Path, transport: Transport, tool: MonitorTool) -> None:
    """Append the output of the vendor's tool to sys_info.log, or the reason for its failure."""
    command = shell(f"({LIMITED}) 2>&1 | head -c {TOOL_OUTPUT}", f"{tool.timeout:g}", *tool.command)
    try:
        output = (await transport.run(command, timeout=tool.timeout + LOOK_TIMEOUT)).stdout
    except HostError as error:
        output = error.problem
    lines = ["accelerators, by the vendor's tool:", *plain(output.strip("\n")).splitlines()]
    with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:  # a full disk fails the training
        file.write("\n" + "\n    ".join(lines) + "\n")
