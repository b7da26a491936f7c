"""What a host is and has, read by one short shell script. Checked before a run starts, and kept as sys_info.log."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
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
PORTS = range(20000, 32768)  # below Linux's ephemeral ports, so that no outgoing connection takes one meanwhile
PASSING = ("listening", "oom_kills", "folder")  # facts of a moment and of one folder: sys_info.log leaves them out
PORT_FILES = "/proc/net/tcp /proc/net/tcp6"
SCRIPT = script(__file__, "facts.sh") + CLAIMED  # one command: a session of ssh costs as much as what a script does
ABSENT = {"devices": "none"}  # what sys_info.log says where others are "unknown"


@dataclass(frozen=True)
class Facts:
    """What the script found on one host."""

    fields: Mapping[str, str]  # as printed, in order
    claims: Completed | None = None  # the answer of claimed.sh; None: it was not asked, or the folder is not there

    def number(self, name: str) -> int | None:
        """A fact that is a whole number; None where the host does not tell it."""
        value = self.fields.get(name, "")
        return int(value) if value.isdigit() else None

    @property
    def devices(self) -> int:
        """Accelerators counted by their device files."""
        return len(self.fields.get("devices", "").split())

    @property
    def folder(self) -> str:
        """What tells the folder of the run, or its nearest parent, from all other folders; empty where unknown.

        "network SOURCE INODE" on a network file system, else "host BOOT_ID DEVICE:INODE".
        """
        return self.fields.get("folder", "")

    @property
    def listening(self) -> frozenset[int]:
        """TCP ports that are taken."""
        return frozenset(int(port, 16) for port in self.fields.get("listening", "").split())

    def interface(self, address: str) -> str | None:
        """The network interface that holds an IPv4 address."""
        pairs = (pair.split("=", 1) for pair in self.fields.get("addresses", "").split())
        return next((name for name, held in pairs if held == address), None)

    def free_port(self) -> int:
        """A TCP port that nobody listens on. Random, so that runs that start together choose different ones."""
        taken = self.listening
        return random.choice([port for port in PORTS if port not in taken])


def sys_info(fields: Mapping[str, str]) -> str:
    """The content of sys_info.log: facts of a host, and of the environment of its ranks. It steers no terminal."""
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
        folder: where the run will lie.
        device_files: glob of the device files of its accelerators.
        ports: also which TCP ports are taken.
        work_dir: where also claimed folders are looked for, for `flagperf.hosts.leftovers`.
    """
    command = Command(("sh", "-s", "--", folder, device_files or "", PORT_FILES if ports else "", work_dir))
    done = await transport.run(command, timeout=LOOK_TIMEOUT, stdin=SCRIPT.encode())
    told, asked, claims = done.stdout.partition("\n---\n")
    if done.exit_status != 0 and not asked:
        raise HostError(transport.host, f"cannot be looked at: {done.stderr.strip() or 'the connection was lost'}")
    fields = {"time": _time_of(transport), **dict(re.findall(r"^(\w+): (.*)$", told, re.MULTILINE))}
    return Facts(fields, replace(done, stdout=claims) if asked else None)


def _time_of(transport: Transport) -> str:
    """What the host's clock shows, in the launcher's time zone."""
    now = datetime.now(timezone.utc) + timedelta(seconds=transport.clock_offset)
    return now.astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


async def add_tool(path: Path, transport: Transport, tool: MonitorTool) -> None:
    """Add to sys_info.log what the vendor's tool prints about the accelerators, or why it prints nothing."""
    command = shell(f"({LIMITED}) 2>&1 | head -c {TOOL_OUTPUT}", f"{tool.timeout:g}", *tool.command)
    try:
        told = (await transport.run(command, timeout=tool.timeout + LOOK_TIMEOUT)).stdout
    except HostError as error:
        told = error.problem
    lines = ["accelerators, by the vendor's tool:", *plain(told.strip("\n")).splitlines()]
    with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:  # a full disk fails the training
        file.write("\n" + "\n    ".join(lines) + "\n")
