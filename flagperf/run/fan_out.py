"""Does a phase on all nodes of a round, within the limit of the phase.

This process has one core for all hosts. So it works on a part of very many hosts at a time, and the limit of a host
counts from its turn. The phases `send` and `collect` have no limit: nobody knows how many bytes there are. Each wait in
them has one, and a copy ends when nothing moves any more (`Pulse`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from flagperf.config.schema.limits import Deadlines
from flagperf.contract.outcome import Failure
from flagperf.errors import FlagperfError, HostError, SeveralErrors
from flagperf.hosts.awake import within
from flagperf.hosts.transport import LOGINS_AT_ONCE
from flagperf.run.node_run import NodeRun
from flagperf.run.progress import Progress

PHASE_LIMITS = {  # seconds; connect and stop depend on the deadlines, see `FanOut`
    "check": 120.0,
    "image": 7200.0,
    "start": 300.0,
    "stop": 60.0,
    "clean": 120.0,
}
TOGETHER = 64  # hosts on which this process works at a time; …
ALL = ("connect", "image", "stop")  # … in these phases on all: they mostly wait, for logins, the first host, the ranks
OTHERS = 10.0  # seconds for the other nodes to end a phase that has failed on one node
CONNECT_ATTEMPTS = 4  # most attempts of a transport, each with its own deadline
EXPECTED = (FlagperfError, OSError)  # errors of hosts; any other error is a bug

log = logging.getLogger(__name__)

Action = Callable[[NodeRun], Awaitable[object]]


class FanOut:
    """Does phases on the nodes of one round, and shows their times."""

    def __init__(self, nodes: Sequence[NodeRun], deadlines: Deadlines, progress: Progress) -> None:
        self.nodes, self.progress = nodes, progress
        self._together = asyncio.Semaphore(TOGETHER)
        turns = math.ceil(len(nodes) / LOGINS_AT_ONCE)  # at most: all through one jump host
        self._limits = {
            **PHASE_LIMITS,
            "connect": turns * CONNECT_ATTEMPTS * deadlines.connect,
            "stop": PHASE_LIMITS["stop"] + deadlines.stop,
        }

    def limit(self, phase: str) -> float | None:
        """Seconds of a phase on one host; None: no limit."""
        return self._limits.get(phase)

    async def on_all(self, phase: str, action: Action) -> None:
        """Do a phase on all nodes. An error ends the phase on all nodes, after some time for their own errors.

        Raises:
            FlagperfError: the error, or one error for all errors.
        """
        self._announce(phase)
        tasks = [asyncio.create_task(self._timed(phase, action, node)) for node in self.nodes]
        try:
            _, going_on = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if going_on:
                await asyncio.wait(going_on, timeout=OTHERS)
            if errors := [error for task in tasks if task.done() and (error := task.exception())]:
                raise combined_error(phase, errors)
        finally:
            for task in tasks:  # only once: a second cancellation would interrupt the cleaning up
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def to_the_end(self, phase: str, action: Action) -> Failure | None:
        """Do a phase on all nodes to the end, also after failures. Returns the failure of all failed nodes.

        A bug does not keep the other nodes, or later phases, from cleaning up. Its traceback is logged.
        """
        self._announce(phase)
        work = (self._timed(phase, action, node) for node in self.nodes)
        errors = await asyncio.gather(*work, return_exceptions=True)
        failed = [(node, error) for node, error in zip(self.nodes, errors, strict=True) if error is not None]
        failures = [_logged_failure(phase, node, error) for node, error in failed]
        if len(failures) < 2:
            return next(iter(failures), None)
        return Failure("; ".join(f"{failure.host}: {failure.cause}" for failure in failures), phase=phase)

    async def _timed(self, phase: str, action: Action, node: NodeRun) -> None:
        async with contextlib.nullcontext() if phase in ALL else self._together:
            began = time.monotonic()
            limit = self.limit(phase)
            with node.times.timed(phase):
                if limit is None:
                    await action(node)
                else:
                    await self._within(limit, phase, action, node)
        took = time.monotonic() - began
        log.debug("%s: phase '%s' ended after %.3f s", node.host, phase, took)
        if phase in node.shown_phases:
            self.progress.ended(phase, node.host, took)

    @staticmethod
    async def _within(limit: float, phase: str, action: Action, node: NodeRun) -> None:
        try:
            await within(action(node), limit)
        except asyncio.TimeoutError:
            raise HostError(node.host, f"phase '{phase}' did not end within {limit:g} s") from None

    def _announce(self, phase: str) -> None:
        hosts = [node.host for node in self.nodes if phase in node.shown_phases]
        if hosts:
            self.progress.phase(phase, hosts)


def combined_error(phase: str, errors: Sequence[BaseException]) -> BaseException:
    """One error for several errors. Hosts with the same problem share a line. A bug replaces all other errors."""
    if bugs := [error for error in errors if not isinstance(error, FlagperfError)]:
        return bugs[0]
    different = {str(error): error for error in errors if isinstance(error, FlagperfError)}
    if len(different) == 1:
        return errors[0]
    hosts: dict[tuple[str, str | None], list[str]] = {}
    for error in different.values():
        if isinstance(error, HostError):
            hosts.setdefault((error.problem, error.advice), []).append(error.host)
    other_errors = [error for error in different.values() if not isinstance(error, HostError)]
    alike = [HostError(", ".join(names), problem, advice=advice) for (problem, advice), names in hosts.items()]
    return SeveralErrors(f"{len(different)} hosts cannot be used, in phase '{phase}'", [*other_errors, *alike])


def _logged_failure(phase: str, node: NodeRun, error: BaseException) -> Failure:
    """Log an error of a node, with its traceback where the error is a bug. Returns the failure."""
    if isinstance(error, EXPECTED):
        cause = str(getattr(error, "problem", error))
    else:
        cause = f"{type(error).__name__}: {error}"
        log.error("%s: a bug of flagperf in phase '%s'", node.host, phase, exc_info=error)
    log.warning("%s: phase '%s': %s", node.host, phase, cause)
    return Failure(cause, host=node.host, node_rank=node.rank, phase=phase)
