"""Watches the nodes of a round until all have ended, one has failed, or a deadline has passed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from flagperf.errors import HostError
from flagperf.plan.values import Plan
from flagperf.run.blame import behind, cause, first_cause, last_lines, rank_exits
from flagperf.run.node_run import NodeRun
from flagperf.run.progress import Progress
from flagperf.run.stacks import stack, stuck, write_stacks
from flagperf.run.values import Failure
from flagperf.run.watch import Watch

EAGER = 0.05  # seconds between two looks at the logs of this machine until the first step …
CALM = 0.25  # … and after it, and at those of other hosts, where a look costs both sides a millisecond a file
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
    local = all(node.transport.local for node in nodes)
    try:
        while running:
            pause = EAGER if local and "first step" not in watch.milestones else CALM
            done, running = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for found in await asyncio.gather(*(node.events() for node in nodes)):
                for rank, event in found:
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
    except HostError as error:
        lost = next((node for node in nodes if node.host == error.host), nodes[0])
        return _failure(lost, f"lost {error.lost}: {error.problem}")
    finally:
        for task in ends:
            task.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


def _failure(node: NodeRun, why: str, *, rank: int | None = None, status: int | None = None, log: str = "") -> Failure:
    phase = "watch" if "launch" in node.phases else "start"
    return Failure(why, phase, node.host, node.rank, rank, status, last_lines(log))


async def _failed_exit(failed: Sequence[NodeRun], nodes: Sequence[NodeRun]) -> Failure:
    """Name the rank that failed first, the node's own launcher where no rank did."""
    reasons = await _reasons(nodes)
    reports = await asyncio.gather(*(node.last_text(node.launcher_log) for node in nodes))
    exits, owner = [], {}
    for node, report in zip(nodes, reports, strict=True):
        for found in rank_exits(report, node.node.ranks[0]):
            exits.append(found)
            owner[found.rank] = node
    logs = await _rank_logs(owner)
    first = first_cause(exits, logs.__getitem__)
    node = owner[first.rank] if first else failed[0]
    log = await node.last_text(node.launcher_log)
    if await node.disk_full():
        return _failure(node, f"disk full: no space left for {node.node.log_dir}", rank=first.rank if first else None)
    if first:
        why = _why(first.exit_status, reasons[node.rank])
        return _failure(node, why, rank=first.rank, status=first.exit_status, log=logs[first.rank] or log)
    if node.exit_status is None:
        return _failure(node, reasons[node.rank] or "lost host: the connection ended", log=log)
    if TAKEN_PORT in log:
        raise PortTaken(
            _failure(node, f"rendezvous port {node.plan.master_port} is taken", status=node.exit_status, log=log)
        )
    why = f"the launcher of the ranks ended: {_why(node.exit_status, reasons[node.rank])}"
    return _failure(node, why, status=node.exit_status, log=log)


async def _reasons(nodes: Sequence[NodeRun]) -> list[str | None]:
    """What the runtime of each node knows beyond exit statuses."""
    return await asyncio.gather(*(node.process.reason() for node in nodes if node.process))


async def _rank_logs(owner: Mapping[int, NodeRun]) -> dict[int, str]:
    """The ends of the logs of some ranks."""
    texts = await asyncio.gather(*(node.last_text(node.rank_log(rank)) for rank, node in owner.items()))
    return dict(zip(owner, texts, strict=True))


def _why(exit_status: int, reason: str | None) -> str:
    return f"{reason} ({cause(exit_status)})" if reason else cause(exit_status)


async def _late(why: str, watch: Watch, nodes: Sequence[NodeRun]) -> Failure:
    """Name the rank that a passed deadline is about, where one can be told from the others, and where it stands."""
    for node, reason in zip(nodes, await _reasons(nodes), strict=True):
        if reason:
            return _failure(node, f"{why}: {reason}")
    await asyncio.gather(*(write_stacks(node.transport, node.node.log_dir) for node in nodes))
    owner = {rank: node for node in nodes for rank in node.node.ranks}
    logs = await _rank_logs(owner)
    named = min(watch.silent) if watch.silent else stuck(logs)
    if named is None:
        named = behind(logs)
    node = owner[named or 0]
    log = logs[named or 0]
    return _failure(node, why, rank=named, log="\n".join(stack(log)) or log or await node.last_text(node.launcher_log))
