"""Plan → Outcome: the phases of a round, on all its nodes at once.

connect → check → image → send → start → watch → stop → collect → clean

Each phase has a deadline. The first failure stops every node. At every end all nodes are stopped, their logs are
collected, and everything that the round made on them is removed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Failure, Outcome
from flagperf.docker.blocking import in_thread
from flagperf.hosts.connect import make_transports
from flagperf.plan.plan import with_rendezvous
from flagperf.plan.values import Plan, Rendezvous
from flagperf.run.diagnose import PortTaken
from flagperf.run.fan_out import FanOut
from flagperf.run.folder import PLAN, write_case
from flagperf.run.interrupt import interruption
from flagperf.run.node_run import NodeRun
from flagperf.run.preflight import check_apart
from flagperf.run.progress import Progress
from flagperf.run.resume import needed_files
from flagperf.run.runtime import make_runtimes
from flagperf.run.supervise import supervise, taken_away

STOPPING = "the run is being stopped; a further interrupt ends it at once, and leaves hosts to the next run"
PORT_ATTEMPTS = 3  # another process may take a free port before the ranks' launcher does

log = logging.getLogger(__name__)


async def execute(job: JobConfig, plan: Plan, folder: Path, progress: Progress, only: int | None = None) -> Outcome:
    """Execute one round.

    Args:
        job: the configured case, with the checkpoints to resume from (`flagperf.run.resume`).
        plan: of the round, in `folder`.
        folder: the run folder, absolute.
        progress: shows each phase, the events of rank 0, and a failure at once.
        only: node rank of the only node to run, where other launchers run the other nodes (`flagperf node`). Progress
            shows the events of its first rank. None: all nodes.

    Raises:
        ConfigError: a check refused the configuration; nothing was started.
        HostError: a host cannot be used; nothing is left running.
    """
    began, clock = time.time(), time.monotonic()
    round_ = _Round(job, plan, folder, progress, range(len(plan.nodes)) if only is None else [only])
    body = asyncio.create_task(round_.phases())
    status: Literal["finished", "failed", "interrupted"] = "interrupted"
    failure = None
    with interruption(lambda: round_.interrupt(body), lambda: log.warning(STOPPING)) as interrupted:
        try:
            failure = await body
            if not interrupted.is_set():
                status = "failed" if failure else "finished"
        except asyncio.CancelledError:
            if not interrupted.is_set():
                raise
            if failure := round_.taken_away:
                status = "failed"
    return Outcome(
        status=status,
        folder=round_.folder,
        failure=failure,
        exit_statuses=tuple(node.exit_status for node in round_.nodes),
        phases={node.folder.name: node.times.seconds for node in round_.nodes},
        started=began,
        seconds=time.monotonic() - clock,
        trained=round_.nodes[0].times.trained if round_.nodes[0].rank == 0 else None,
        outages=tuple(outage for node in round_.nodes for outage in node.transport.outages),
    )


def find_rendezvous(job: JobConfig, plan: Plan, nodes: Sequence[NodeRun]) -> Rendezvous:
    """The rendezvous of the cluster's file; facts of the hosts replace missing values."""
    configured, node0 = job.cluster.rendezvous, nodes[0]
    address, interfaces = plan.master_address, [configured.interface] * len(plan.nodes)
    if not node0.transport.local:
        address = configured.address or node0.transport.address
    if not all(node.node.local for node in plan.nodes):
        for node in nodes:
            interfaces[node.rank] = configured.interface or node.facts.interface(node.transport.address)
    return Rendezvous(address, configured.port or node0.facts.free_port(), tuple(interfaces))


class _Round:
    """The sequence of a round's phases."""

    def __init__(self, job: JobConfig, plan: Plan, run_folder: Path, progress: Progress, ranks: Sequence[int]) -> None:
        self.job, self.plan, self.run_folder, self.progress = job, plan, run_folder, progress
        self.folder = run_folder / job.name / f"round{plan.round}"
        transports = make_transports(job, [plan.nodes[rank].node for rank in ranks])
        runtimes = make_runtimes(job, plan, ranks, transports, self.folder, progress.working)
        self.nodes = [
            NodeRun(job, self.plan, rank, transport, runtime, self.folder)
            for rank, transport, runtime in zip(ranks, transports, runtimes, strict=True)
        ]
        for node in self.nodes:
            node.say = progress.working
        for node in [node for node in self.nodes if node.transport.same_files][1:]:
            node.brings_code = False
        self._fan_out = FanOut(self.nodes, plan.deadlines, progress)
        self._ending = False  # true: nodes are being stopped and cleaned, which nothing interrupts
        self._interrupted = False
        self.taken_away: Failure | None = None  # why the round was interrupted, where a scheduler did it

    def interrupt(self, body: asyncio.Task[Failure | None]) -> None:
        """End the round. Does nothing where the round already ends."""
        self._interrupted = True
        if not self._ending:
            body.cancel()

    async def phases(self) -> Failure | None:
        """All phases. Returns the failure of the round; None: it ended well."""
        async with AsyncExitStack() as connections:
            await self._fan_out.on_all("connect", lambda node: connections.enter_async_context(node.transport))
            for node in self.nodes:
                connections.push_async_callback(node.runtime.close)
            await self._fan_out.on_all("check", NodeRun.check)
            check_apart(self.job, [(node.node.node, node.facts) for node in self.nodes])
            self._set_rendezvous()
            await self._fan_out.on_all("image", NodeRun.prepare)
            if self.job.clear_caches and not all(node.caches_cleared for node in self.nodes):
                self._adopt_plan(replace(self.plan, config={**self.plan.config, "clear_caches": False}))
            if self.job.resume and not all(node.transport.same_files for node in self.nodes):
                needed = await in_thread(partial(needed_files, Path(self.job.resume)))
                for node in self.nodes:
                    node.checkpoints = needed
            return await self._attempts()

    async def _attempts(self) -> Failure | None:
        """Train. Try another port where another process took the free port."""
        for remaining in reversed(range(1 if self.job.cluster.rendezvous.port else PORT_ATTEMPTS)):
            try:
                return await self._attempt()
            except PortTaken as taken:
                if not remaining:
                    self.progress.failure(taken.failure)
                    return taken.failure
                log.warning("%s on %s; trying another", taken.failure.cause, taken.failure.host)
                for node in self.nodes:
                    node.logs.set_aside(self.plan.master_port)
                await self.nodes[0].look()
                self._set_rendezvous()
        raise AssertionError("the last attempt returns")

    def _set_rendezvous(self) -> None:
        """Adopt and write the plan with the rendezvous of the hosts."""
        self._adopt_plan(with_rendezvous(self.plan, self.job, find_rendezvous(self.job, self.plan, self.nodes)))

    def _adopt_plan(self, plan: Plan) -> None:
        self.plan = plan
        write_case(self.job, self.plan, self.run_folder)
        for node in self.nodes:
            node.adopt_plan(self.plan)

    async def _attempt(self) -> Failure | None:
        if self._interrupted:  # at the end of the previous attempt
            raise asyncio.CancelledError
        self._ending = False
        try:
            await self._fan_out.on_all("send", NodeRun.send)
            await self._fan_out.on_all("start", NodeRun.launch)
            failure = await supervise(self.nodes, self.plan, self.progress)
            (self.folder / PLAN).stat()  # a removed result folder is the reason of all later failures
            if failure is not None:
                self.progress.failure(failure)  # before the nodes are stopped
        except asyncio.CancelledError:
            if loss := await taken_away(self.nodes):
                self.taken_away = loss
                self.progress.failure(loss)
            raise
        finally:
            self._ending = True
            await self._fan_out.to_the_end("stop", NodeRun.stop)
            uncollected = await self._fan_out.to_the_end("collect", NodeRun.collect)
            await self._fan_out.to_the_end("clean", NodeRun.clean)
        return failure or uncollected  # a failed `clean` is only a warning: the training is complete
