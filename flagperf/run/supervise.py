"""Watches the nodes of a round until all have ended, one has failed, or a deadline has passed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from flagperf.errors import HostError
from flagperf.plan.values import Plan
from flagperf.run.diagnose import failed_exit, failure, passed_deadline, phase
from flagperf.run.node_run import NodeRun
from flagperf.run.progress import Progress
from flagperf.run.values import Failure
from flagperf.run.watch import Watch

EAGER = 0.05  # seconds between two looks at the logs of this machine until the first step …
CALM = 0.25  # … and after it, and at those of other hosts, where a look costs both sides a millisecond a file
SETTLE = 1.0  # seconds that the ranks' launcher gets for its own report of a failure


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
            failed += [node for node in nodes if node.logs.noticed and node not in failed]
            if failed:
                await asyncio.wait(running, timeout=SETTLE) if running else None
                return await failed_exit(failed, nodes)
            if late := watch.overdue(time.monotonic()):
                return await passed_deadline(late, watch.silent, nodes)
        return None
    except HostError as error:
        why = f"lost {error.lost}: {error.problem}"
        lost = [node for node in nodes if node.host == error.host]
        return failure(lost, why) if lost else Failure(why, host=error.host, phase=phase(nodes))
    finally:
        for task in ends:
            task.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
