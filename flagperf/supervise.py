"""Watches the nodes of a round until all have ended, one has failed, or a deadline has passed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from flagperf.blame import cause, first_cause, last_lines, rank_exits
from flagperf.errors import HostError
from flagperf.node_run import NodeRun
from flagperf.perflog import Event, parse
from flagperf.progress import Progress
from flagperf.schema import Failure, Plan
from flagperf.watch import Watch

EAGER = 0.05  # seconds between two looks at the logs until the first step …
CALM = 0.25  # … and after it
SETTLE = 1.0  # seconds that the ranks' launcher gets for its own report of a failure
TAKEN_PORT = "EADDRINUSE"


class PortTaken(Exception):
    """Someone else listens on the rendezvous port; no rank has started."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


async def supervise(nodes: Sequence[NodeRun], plan: Plan, progress: Progress) -> Failure | None:
    """Returns why the round failed, as soon as it has; None when every node ended well. Stops nothing.

    Raises:
        PortTaken: another port may do.
    """
    watch = Watch(sum(len(node.node.ranks) for node in nodes), plan.deadlines, time.monotonic())
    ends = {asyncio.create_task(node.wait()): node for node in nodes}
    running = set(ends)
    try:
        while running:
            pause = CALM if "first step" in watch.milestones else EAGER
            done, running = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for node in nodes:
                for rank, event in await _events(node):
                    watch.saw(rank, event, time.monotonic())
                    if rank == 0:
                        progress.event(event)
            failed = [node for task, node in ends.items() if task in done and node.exit_status != 0]
            failed += [node for node in nodes if node.noticed and node not in failed]
            if failed:
                await asyncio.wait(running, timeout=SETTLE) if running else None
                return await _failed_exit(failed, nodes)
            if late := watch.overdue(time.monotonic()):
                return await _late(late, watch, nodes)
        return None
    except _Lost as lost:
        return lost.failure
    finally:
        for task in ends:
            task.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


class _Lost(Exception):
    """A host cannot be reached any more."""

    def __init__(self, node: NodeRun, error: HostError) -> None:
        self.failure = _failure(node, f"lost host: {error.problem}")


async def _events(node: NodeRun) -> list[tuple[int, Event]]:
    try:
        return await node.events()
    except HostError as error:
        raise _Lost(node, error) from error


def _failure(node: NodeRun, why: str, *, rank: int | None = None, status: int | None = None, log: str = "") -> Failure:
    phase = "watch" if "imports" in node.phases else "start"
    return Failure(why, phase, node.host, node.rank, rank, status, last_lines(log))


async def _failed_exit(failed: Sequence[NodeRun], nodes: Sequence[NodeRun]) -> Failure:
    """Name the rank that failed first, the node's own launcher where no rank did."""
    exits, owner = [], {}
    for node in nodes:
        for found in rank_exits(await node.last_text(node.launcher_log), node.node.ranks[0]):
            exits.append(found)
            owner[found.rank] = node
    logs = {found.rank: await owner[found.rank].last_text(owner[found.rank].rank_log(found.rank)) for found in exits}
    first = first_cause(exits, logs.__getitem__)
    node = owner[first.rank] if first else failed[0]
    log = await node.last_text(node.launcher_log)
    if await node.disk_full():
        return _failure(node, f"disk full: no space left for {node.node.log_dir}", rank=first.rank if first else None)
    if first:
        why = await _why(node, first.exit_status)
        return _failure(node, why, rank=first.rank, status=first.exit_status, log=logs[first.rank] or log)
    if node.exit_status is None:
        return _failure(node, "lost host: the connection ended", log=log)
    if TAKEN_PORT in log:
        raise PortTaken(
            _failure(node, f"rendezvous port {node.plan.master_port} is taken", status=node.exit_status, log=log)
        )
    return _failure(
        node, f"the launcher of the ranks ended: {cause(node.exit_status)}", status=node.exit_status, log=log
    )


async def _why(node: NodeRun, exit_status: int) -> str:
    """Exit status in words, with what the runtime knows beyond it."""
    more = await node.process.reason() if node.process else None
    return f"{more} ({cause(exit_status)})" if more else cause(exit_status)


async def _late(why: str, watch: Watch, nodes: Sequence[NodeRun]) -> Failure:
    """Name the rank that a passed deadline is about: the one that is behind the others, if one is."""
    owner = {rank: node for node in nodes for rank in node.node.ranks}
    logs = {rank: await node.last_text(node.rank_log(rank)) for rank, node in owner.items()}
    behind = min(watch.silent) if watch.silent else _behind(logs)
    node = owner[behind or 0]
    log = logs[behind or 0] or await node.last_text(node.launcher_log)
    return _failure(node, why, rank=behind, log=log)


def _behind(logs: Mapping[int, str]) -> int | None:
    """The one rank whose last logged step is lower than all others'."""
    steps = {}
    for rank, log in logs.items():
        events = [event for line in log.splitlines() if (event := parse(line))]
        steps[rank] = max((int(event.value.get("step", 0)) for event in events), default=0)
    lowest = [rank for rank, step in steps.items() if step == min(steps.values())]
    return lowest[0] if len(lowest) == 1 else None
