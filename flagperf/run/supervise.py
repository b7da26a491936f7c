"""Watches the nodes of a round until all have ended, one has failed, or a deadline has passed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from flagperf.contract.command import Command
from flagperf.contract.outcome import Failure
from flagperf.errors import HostError
from flagperf.hosts.awake import AwakeClock
from flagperf.plan.values import Plan
from flagperf.run.diagnose import failed_exit, failure, passed_deadline, phase
from flagperf.run.node_run import NodeRun
from flagperf.run.progress import Progress
from flagperf.run.watch import Watch

EAGER = 0.05  # seconds between two looks at the logs of this machine until the first step …
CALM = 0.25  # … and after it, and at those of other hosts, where a look costs both sides a millisecond a file
LAST = 6.0  # seconds that launchers and docker daemons get to tell of their end, once all ranks logged FINISHED
ANSWER = 10.0  # seconds that a host may take to say that it is there
SETTLE = 1.0  # seconds that the ranks' launchers get for their own reports of a failure, …
SETTLES = 15  # … and how often, while all that failed did so because of another one

log = logging.getLogger(__name__)


async def supervise(nodes: Sequence[NodeRun], plan: Plan, progress: Progress) -> Failure | None:
    """Returns why the round failed, as soon as it has; None when every node ended well. Stops nothing.

    Raises:
        PortTaken: another port may do.
        OSError: the result folder is gone.
    """
    async with AwakeClock() as clock:
        found = await _until_the_end(nodes, plan, progress, clock)
    return found and (_forsaken(nodes, clock) or found)


async def taken_away(nodes: Sequence[NodeRun]) -> Failure | None:
    """The failure of a round whose hosts a scheduler took away; None where none did."""
    try:
        await asyncio.gather(*(node.transport.check_held() for node in nodes))
    except HostError as error:
        return _lost(error, nodes)
    return None


async def _all_lost(error: HostError, nodes: Sequence[NodeRun]) -> Failure:
    """The failure of a host that is lost, and of all others that do not answer either."""
    others = [node for node in nodes if node.host != error.host and type(error) is HostError]
    asked = (node.transport.run(Command(("true",)), timeout=ANSWER) for node in others)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    errors = [error, *(answer for answer in answers if isinstance(answer, HostError))]
    if len(errors) == 1:
        return _lost(error, nodes)
    ranks = {node.host: node.rank for node in nodes}
    errors.sort(key=lambda one: ranks.get(one.host, -1))
    told = "; ".join(f"{one.host}: {one.problem}" for one in errors)
    return Failure(f"lost {len(errors)} hosts: {told}", phase=phase(nodes))


def _lost(error: HostError, nodes: Sequence[NodeRun]) -> Failure:
    why = f"lost {error.lost}: {error.problem}"
    lost = [node for node in nodes if node.host == error.host]
    return failure(lost, why) if lost else Failure(why, host=error.host, phase=phase(nodes))


async def _until_the_end(nodes: Sequence[NodeRun], plan: Plan, progress: Progress, clock: AwakeClock) -> Failure | None:
    watch = Watch([rank for node in nodes for rank in node.node.ranks], plan.deadlines, clock.now())
    ends = {asyncio.create_task(node.wait()): node for node in nodes}
    running = set(ends)
    local = all(node.transport.local for node in nodes)
    told = plan.round > 1  # the first round has told
    finished: float | None = None  # when all ranks had logged FINISHED
    try:
        while running and (finished is None or clock.now() - finished < LAST):
            pause = EAGER if local and "first step" not in watch.milestones else CALM
            _, running = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            nodes[0].folder.stat()  # ranks write on in a folder that was removed, and nobody would see it
            for found in await asyncio.gather(*(node.events() for node in nodes)):
                for rank, event in found:
                    watch.saw(rank, event, clock.now())
                    if rank == watch.first:
                        progress.event(event)
            if not told and "submitted" in watch.milestones:
                told = True
                _tell_left_out(nodes)
            if "first step" not in watch.milestones:
                progress.starting({node.host: node.times for node in nodes})
            if finished is None and not any(node.logs.unfinished for node in nodes):
                finished = clock.now()
            if any(_failed(node, finished is not None) for node in nodes):
                return await _first_cause(nodes, running)
            if finished is None and (late := watch.overdue(clock.now())):
                return await passed_deadline(late, watch.silent, nodes)
        return None if all(node.logs.finished for node in nodes) else await failed_exit(nodes)
    except HostError as error:
        return await _all_lost(error, nodes)
    finally:
        for task in ends:
            task.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


def _tell_left_out(nodes: Sequence[NodeRun]) -> None:
    """Name the variables that did not reach the ranks."""
    if names := sorted(set().union(*(node.logs.left_out for node in nodes))):
        advice = "to give one to them: +vendor.environment.NAME=VALUE"
        log.info("variables that do not reach the ranks: %s; %s", ", ".join(names), advice)


def _failed(node: NodeRun, finished: bool) -> bool:
    """Whether the node failed. After FINISHED, an unknown exit status (a docker daemon that hangs) is no failure."""
    return node.failed and not (finished and node.exit_status is None and not node.logs.noticed)


async def _first_cause(nodes: Sequence[NodeRun], running: set[asyncio.Task[None]]) -> Failure | None:
    """Why a round failed. A host may tell later than others that it began there."""
    for _ in range(SETTLES):
        if running:
            _, running = await asyncio.wait(running, timeout=SETTLE)
        if not running:
            break
        if found := await failed_exit(nodes, final=False):
            return found
    return await failed_exit(nodes)


def _forsaken(nodes: Sequence[NodeRun], clock: AwakeClock) -> Failure | None:
    """The failure of hosts that ended their part, having heard nothing of the launcher; None where none had to."""
    ended = [node.transport.linger for node in nodes if node.ended is not None]
    linger = min((limit for limit in ended if limit is not None), default=None)
    if linger is None or clock.stood < linger or clock.now() - clock.woke > 2 * linger:
        return None
    return Failure(
        f"the launcher stood still for {clock.stood:.0f} s: hosts end a training of which the launcher is gone for "
        f"{linger:g} s (cluster.ssh.reconnect)",
        phase=phase(nodes),
    )
