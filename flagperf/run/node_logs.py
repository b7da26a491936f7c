"""Reads the logs of one node while its ranks run."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from flagperf.contract.perflog import Event
from flagperf.hosts.shell import shell
from flagperf.hosts.tail import Tail
from flagperf.hosts.transport import Transport
from flagperf.plan.values import NodePlan, Plan
from flagperf.secret import Mask

LAST = '[ -f "$1" ] && [ ! -L "$1" ] && tail -c "$2" "$1"'  # reading a pipe could block
FREE = """for unit in k i; do df -P$unit "$1" | awk 'END { print $2, $4 }'; done"""
READ_TIMEOUT = 10.0  # seconds
END = 1 << 18  # bytes at the end of a log that are read: last lines and stacks
RECORDS = ("STEP_END", "FINISHED")  # events of the other ranks of this machine that are read during the training, …
RECORDS_INTERVAL = 1.0  # … in seconds
LEFT_OUT = "flagperf: left out of the ranks' environment: "  # flagperf/plan/environment.sh, in the launcher's log
FULL_KIB = 1024  # free space below which a disk counts as full: a line may fit where a block does not


class NodeLogs:
    """Reads the logs of a node from the start of its ranks on. Each attempt to start the ranks has its own object."""

    def __init__(
        self, plan: Plan, node: NodePlan, transport: Transport, folder: Path, mask: Mask, exits: Sequence[str]
    ) -> None:
        """Begin to read.

        Args:
            folder: the node's log folder on this machine, for copies of the growing logs of another host.
            exits: regular expressions for a rank's end in the launcher's log.
        """
        self.node, self.transport, self.folder, self.mask = node, transport, folder, mask
        self.launcher = plan.launcher_log(node)
        self.noticed = False  # true: the ranks' launcher has reported a failed rank
        self.left_out: set[str] = set()  # names of variables of the host that did not reach the ranks
        self._exits = exits
        self._events: list[tuple[int, Event]] = []  # that no call has returned yet
        self._next_records = 0.0  # time.monotonic of the next read of the other ranks' step records
        self._launcher_tail = self._tail(self.launcher)
        self._tails = {rank: self._tail(self.of_rank(rank)) for rank in node.ranks}
        self.silent = set(node.ranks)  # ranks without a log line
        self.finished = False  # true: the node's first rank has logged FINISHED
        self.unfinished = set(node.ranks)  # ranks without FINISHED

    def of_rank(self, rank: int) -> str:
        """Path of a rank's log on the node."""
        return f"{self.node.log_dir}/rank{rank}.out.log"

    async def events(self) -> list[tuple[int, Event]]:
        """New events since the last call: rank and event.

        A call that raises HostError loses no event: the next call returns all. On this machine the other ranks are read
        in full only until their first line, and after FINISHED of the first rank. Between, their step records are read
        every second.
        """
        lines = await self._launcher_tail.lines()
        self.left_out |= {name for line in lines if line.startswith(LEFT_OUT) for name in line[len(LEFT_OUT) :].split()}
        self.noticed |= any(re.search(pattern, line) for line in lines for pattern in self._exits)
        due = time.monotonic() >= self._next_records
        if due:
            self._next_records = time.monotonic() + RECORDS_INTERVAL
        for rank, tail in self._tails.items():
            if rank == self.node.ranks[0] or rank in self.silent or not self.transport.same_files:
                self._events += self._noted(rank, await tail.events())
            elif self.finished and rank in self.unfinished:
                self._noted(rank, await tail.events())
            elif due:
                self._events += self._noted(rank, await tail.events(RECORDS))
        self.silent -= {rank for rank, _ in self._events}
        self.finished = self.node.ranks[0] not in self.unfinished
        events, self._events = self._events, []
        return events

    def _noted(self, rank: int, events: Sequence[Event]) -> list[tuple[int, Event]]:
        """The events with their rank. FINISHED is noted."""
        if any(event.event == "FINISHED" for event in events):
            self.unfinished.discard(rank)
        return [(rank, event) for event in events]

    async def last_text(self, path: str) -> str:
        """The end of a log; empty where the log is missing."""
        done = await self.transport.run(shell(LAST, path, str(END)), timeout=READ_TIMEOUT)
        return self.mask.text(done.stdout)

    async def disk_full(self) -> bool:
        """Whether the disk of the logs has no room left."""
        done = await self.transport.run(shell(FREE, self.node.log_dir), timeout=READ_TIMEOUT)
        free = [columns.split() for columns in done.stdout.splitlines()]  # total, and free: KiB, and then inodes
        return any(
            total.isdigit() and int(total) and left.isdigit() and int(left) < least
            for (total, left), least in zip(free, (FULL_KIB, 1), strict=False)
        )

    def set_aside(self, port: int) -> None:
        """Rename the launcher's log after the port of a failed attempt. The next attempt makes a new log."""
        path = self.folder / Path(self.launcher).name
        path.rename(path.with_suffix(f".port{port}.log"))

    def _tail(self, path: str) -> Tail:
        copy = None if self.transport.same_files else self.folder / Path(path).name
        return Tail(self.transport, path, copy, self.mask)
