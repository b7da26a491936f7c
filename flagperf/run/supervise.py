"""Watches the nodes of a round until all have ended, one has failed, or a deadline has passed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from flagperf.contract.command import Command
from flagperf.contract.outcome import Failure
from flagperf.errors import FlagperfError, HostError, JumpError
from flagperf.hosts.awake import AwakeClock
from flagperf.plan.values import Plan
from flagperf.run.detection import Detection
from flagperf.run.diagnose import PortTaken, failed_exit, failure, passed_deadline, phase
from flagperf.run.node_run import NodeRun
from flagperf.run.progress import Progress
from flagperf.run.reading import Reading
from flagperf.run.watch import Watch

EAGER = 0.05  # seconds between two reads of the logs of this machine until the first step …
CALM = 0.25  # … and later, and for other hosts: there a read costs both sides a millisecond a file
LAST = 6.0  # seconds for launchers and docker daemons to report their end, after all ranks logged FINISHED
ANSWER = 10.0  # seconds for the answer of a host
SETTLE = 1.0  # seconds for the ranks' launchers to report a failure, …
SETTLES = 15  # … and the number of such waits while other ends explain all known ends

log = logging.getLogger(__name__)


async def supervise(nodes: Sequence[NodeRun], plan: Plan, progress: Progress) -> Failure | None:
    """Wait for the end of a round, and return its failure at once; None: every node ended well. Stops nothing.

    Raises:
        PortTaken: another process listens on the rendezvous port.
        OSError: the result folder was removed.
    """
    async with AwakeClock() as clock, Reading(nodes, plan.deadlines.stall, clock) as reading:
        cause = await _until_the_end(nodes, plan, progress, clock, reading)
    return cause and (_abandoned(nodes, clock) or cause)


async def taken_away(nodes: Sequence[NodeRun]) -> Failure | None:
    """The failure of a round whose hosts a scheduler took away; None where the round still has its hosts."""
    try:
        await asyncio.gather(*(node.transport.check_held() for node in nodes))
    except HostError as error:
        return _lost(error, nodes)
    return None


async def failure_of_hosts(error: HostError, nodes: Sequence[NodeRun]) -> Failure:
    """The failure of a lost host, and of all other hosts without an answer."""
    other_nodes = [node for node in nodes if node.host != error.host and type(error) in (HostError, JumpError)]
    requests = (node.transport.run(Command(("true",)), timeout=ANSWER) for node in other_nodes)
    answers = await asyncio.gather(*requests, return_exceptions=True)
    errors = [error, *(answer for answer in answers if isinstance(answer, HostError))]
    if len(errors) == 1:
        return _lost(error, nodes)
    jumps = {lost.jump if isinstance(lost, JumpError) else None for lost in errors}
    if len(jumps) == 1 and (jump := jumps.pop()):
        hosts = ", ".join(sorted({lost.host for lost in errors}))
        return Failure(f"lost jump host {jump}, the way to {hosts}: {error.problem}", phase=phase(nodes))
    ranks = {node.host: node.rank for node in nodes}
    errors.sort(key=lambda lost: ranks.get(lost.host, -1))
    problems = "; ".join(f"{lost.host}: {lost.problem}" for lost in errors)
    return Failure(f"lost {len(errors)} hosts: {problems}", phase=phase(nodes))


def _lost(error: HostError, nodes: Sequence[NodeRun]) -> Failure:
    if isinstance(error, JumpError):
        return Failure(f"lost jump host {error.jump}, the way to {error.host}: {error.problem}", phase=phase(nodes))
    problem = f"lost {error.lost}: {error.problem}" if error.lost else error.problem
    lost = [node for node in nodes if node.host == error.host]
    return failure(lost, problem) if lost else Failure(problem, host=error.host, phase=phase(nodes))


async def _until_the_end(
    nodes: Sequence[NodeRun], plan: Plan, progress: Progress, clock: AwakeClock, reading: Reading
) -> Failure | None:
    watch = Watch([rank for node in nodes for rank in node.node.ranks], plan.deadlines, clock.now())
    ends = {asyncio.create_task(node.wait()): node for node in nodes}
    running = set(ends)
    local = all(node.transport.local for node in nodes)
    left_out_logged = plan.round > 1  # the first round has logged them
    detection = Detection(nodes, plan.config, nodes[0].folder.parent)
    finished: float | None = None  # when all ranks had logged FINISHED
    try:
        while (running or reading.behind) and (finished is None or clock.now() - finished < LAST):
            pause = EAGER if local and "first step" not in watch.milestones else CALM
            ended, running = await _ended(running, pause)
            for task in ended:
                task.result()  # raises what kept the launcher from seeing the end of the ranks' launcher
            nodes[0].folder.stat()  # ranks would go on to write into a removed folder
            for rank, event in await reading.turn():
                watch.observe(rank, event, clock.now())
                detection.observe(rank, event)
                if rank == watch.first:
                    progress.event(event)
            if not left_out_logged and "submitted" in watch.milestones:
                left_out_logged = True
                _log_left_out(nodes)
            if "first step" not in watch.milestones:
                progress.starting({node.host: node.times for node in nodes})
            if finished is None and not any(node.logs.unfinished for node in nodes):
                finished = clock.now()
            if any(_failed(node, finished is not None) for node in nodes):
                return await _first_cause(nodes, running)
            if finished is None and (deadline := watch.overdue(clock.now())):
                if unread := reading.unread:
                    return failure([unread[0]], f"{deadline}: {unread[1]}")
                return await passed_deadline(deadline, watch.silent, nodes)
        return None if all(node.logs.finished for node in nodes) else await failed_exit(nodes)
    except HostError as error:
        return await failure_of_hosts(error, nodes)
    except (FlagperfError, PortTaken, OSError):
        raise
    except Exception as error:  # also then the nodes are stopped, and the run has a result
        log.exception("a bug of flagperf while it watched the training")
        return Failure(f"a bug of flagperf: {type(error).__name__}: {error}", phase=phase(nodes))
    finally:
        for task in ends:
            task.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


async def _ended(
    running: set[asyncio.Task[None]], seconds: float
) -> tuple[set[asyncio.Task[None]], set[asyncio.Task[None]]]:
    """Wait for the end of a task. Returns those that ended, and those that run."""
    if running:
        return await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(seconds)
    return set(), set()


def _log_left_out(nodes: Sequence[NodeRun]) -> None:
    """Name the variables that did not reach the ranks."""
    if names := sorted(set().union(*(node.logs.left_out for node in nodes))):
        advice = "to give a variable to the ranks: +vendor.environment.NAME=VALUE"
        log.info("variables that do not reach the ranks: %s; %s", ", ".join(names), advice)


def _failed(node: NodeRun, finished: bool) -> bool:
    """Whether the node failed. After FINISHED, an unknown exit status (a docker daemon that hangs) is no failure."""
    return node.failed and not (finished and node.exit_status is None and not node.logs.noticed)


async def _first_cause(nodes: Sequence[NodeRun], running: set[asyncio.Task[None]]) -> Failure | None:
    """Why a round failed. The report of the first failure may come later than other reports."""
    for _ in range(SETTLES):
        if running:
            _, running = await asyncio.wait(running, timeout=SETTLE)
        if not running:
            break
        if cause := await failed_exit(nodes, final=False):
            return cause
    return await failed_exit(nodes)


def _abandoned(nodes: Sequence[NodeRun], clock: AwakeClock) -> Failure | None:
    """The failure of hosts that ended their part because the launcher stood still; None: no host did."""
    ended = [node.transport.linger for node in nodes if node.ended is not None]
    linger = min((limit for limit in ended if limit is not None), default=None)
    if linger is None or clock.stood < linger or clock.now() - clock.woke > 2 * linger:
        return None
    return Failure(
        f"the launcher stood still for {clock.stood:.0f} s: hosts end a training if the launcher is gone for "
        f"{linger:g} s (cluster.ssh.reconnect)",
        phase=phase(nodes),
    )
