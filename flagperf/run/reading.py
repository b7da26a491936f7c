"""Reads the new log lines of all nodes of a round."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from flagperf.contract.perflog import Event
from flagperf.errors import HostError
from flagperf.hosts.awake import AwakeClock
from flagperf.hosts.transport import FilesError
from flagperf.run.node_run import NodeRun

TURN = 1.0  # seconds; a turn waits no longer for the logs of a host
LATE = 3.0  # seconds without an answer after which a passed deadline names the logs that do not answer


class Reading:
    """Reads the logs of all nodes, turn by turn. A silent host holds up neither other hosts nor deadlines.

    Args:
        limit: seconds without an answer of a host's files after which the host is lost: `deadlines.stall`.
        clock: runs during the block `async with Reading(…)`.
    """

    def __init__(self, nodes: Sequence[NodeRun], limit: float, clock: AwakeClock) -> None:
        self._nodes, self._limit, self._clock = nodes, limit, clock
        self._tasks: dict[NodeRun, asyncio.Task[list[tuple[int, Event]]]] = {}
        self._asked: dict[NodeRun, float] = {}  # since when nodes have not answered
        self.behind = False  # true: the last turn did not read all that the logs had at its begin

    async def __aenter__(self) -> Reading:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def turn(self) -> list[tuple[int, Event]]:
        """The new events of the nodes that answer in time: rank and event.

        Raises:
            HostError: a host is lost, or its files did not answer within the limit.
        """
        late = set(self._tasks)
        for node in self._nodes:
            if node not in late:
                self._tasks[node] = asyncio.create_task(node.events())
                self._asked.setdefault(node, self._clock.now())
        await asyncio.wait(self._tasks.values(), timeout=TURN)
        events = [event for node in self._nodes for event in self._answer(node)]
        self.behind = bool(late or self._asked)
        for node in self._asked:
            if self._clock.now() - self._asked[node] > self._limit:
                advice = f"does a file system hang there? Try: ls {node.node.log_dir}"
                raise HostError(node.host, f"{self._unread(node)} (deadlines.stall)", advice=advice)
        return events

    def _answer(self, node: NodeRun) -> Sequence[tuple[int, Event]]:
        """The events of a node that has answered."""
        if not self._tasks[node].done():
            return ()
        try:
            events = self._tasks.pop(node).result()
        except FilesError:  # asked again in the next turn
            return ()
        del self._asked[node]
        return events

    @property
    def unread(self) -> tuple[NodeRun, str] | None:
        """A node whose logs do not answer, in words; None: there is none."""
        late = [node for node, asked in self._asked.items() if self._clock.now() - asked > LATE]
        return (late[0], self._unread(late[0])) if late else None

    def _unread(self, node: NodeRun) -> str:
        return f"its logs cannot be read: no answer for {self._clock.now() - self._asked[node]:.0f} s"
