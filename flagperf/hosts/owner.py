"""Who started a container: which process of which machine. Only the leftovers of owners that are dead may go."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

State = Literal["this", "alive", "dead", "elsewhere"]


def myself() -> str:
    """This process, as no other process of any machine is called: host name, boot, pid and start time."""
    return _name(os.getpid())


def state(owner: str) -> State:
    """What has become of an owner. Of one on another machine nothing is known: it counts as "elsewhere"."""
    words = owner.split()
    if owner == myself():
        return "this"
    if len(words) != 4 or words[0] != socket.gethostname():
        return "elsewhere"
    try:
        return "alive" if _name(int(words[2])) == owner else "dead"
    except (OSError, ValueError):
        return "dead"


def _name(pid: int) -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]  # clock ticks after boot
    return f"{socket.gethostname()} {boot} {pid} {started}"
