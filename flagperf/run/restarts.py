"""`restarts=N`: after the loss of a rank or a host, a round goes on from its last complete checkpoint.

The files of the lost attempt move to round<N>/attempt<M>/. The next attempt runs on the same hosts. A spare host of the
cluster replaces a host that is lost, or that was at fault before.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.values import JobConfig
from flagperf.contract import made_here
from flagperf.contract.checkpoint import CHECKPOINTS, hash_file, hashes
from flagperf.contract.outcome import Failure, Outcome, refusal
from flagperf.errors import HostError, TrainingError
from flagperf.plan.values import CONFIG
from flagperf.results import attempts
from flagperf.results.cost import RESTARTS
from flagperf.run.folder import PLAN
from flagperf.run.resume import checkpoints_in

LOST = "lost "  # begins the cause where a host, or its docker daemon, is lost
NO_HOSTS = "lost allocation"  # … and where a scheduler took all hosts away


class Attempts:
    """The attempts of a round.

    Args:
        job: with the checkpoints to resume from.
        folder: of the round.
        say: takes a remark on each restart.
    """

    def __init__(self, job: JobConfig, folder: Path, say: Callable[[str], None]) -> None:
        self.job, self.folder, self._say = job, folder, say
        self._at_fault: set[str] = set()  # hosts of earlier failures
        self._began = time.time()

    async def run(self, execute: Callable[[JobConfig], Awaitable[Outcome]]) -> Outcome:
        """Execute the round until an attempt is not lost, or no restart is left. The time is that of all attempts."""
        for number in range(1, self.job.restarts + 1):
            outcome = await self._attempt(execute, number)
            if outcome.failure is None or not is_loss(outcome):
                return self._with_all_attempts(outcome)
            self._restart(number, outcome, outcome.failure)
        return self._with_all_attempts(await execute(self.job))

    async def _attempt(self, execute: Callable[[JobConfig], Awaitable[Outcome]], number: int) -> Outcome:
        """Execute an attempt. A host that cannot be used fails a round at its start, but ends a restart only."""
        began = time.time()
        try:
            return await execute(self.job)
        except HostError as error:
            if number == 1:
                raise
            return Outcome("failed", self.folder, refusal(error), (), {}, began, time.time() - began)

    def _restart(self, number: int, outcome: Outcome, failure: Failure) -> None:
        """Set the lost attempt aside, and choose hosts and checkpoint of the next one."""
        hosts = tuple(node.name for node in self.job.cluster.nodes[: self.job.nnodes])
        aside = self._set_aside(number)
        if complete := [path for path in checkpoints_in(aside / CHECKPOINTS) if is_complete(path)]:
            self.job = replace(self.job, resume=str(aside / CHECKPOINTS))
        elif self.job.resume is not None:  # that of an earlier attempt, or of another run
            complete = checkpoints_in(Path(self.job.resume))
        step = int(complete[-1].stem.removeprefix("step")) if complete else 0
        attempts.write(attempts.Attempt(failure, hosts, outcome.started, outcome.seconds, step), aside)
        where = self._choose_hosts(failure)
        origin = f"after step {step}" if step else "from the beginning: there is no complete checkpoint"
        self._say(f"restart {number} of {self.job.restarts}, {where}, {origin}")

    def _set_aside(self, number: int) -> Path:
        """Move the files of an attempt into a folder of its own."""
        aside = self.folder / f"attempt{number}"
        before = attempts.folders(self.folder)
        files = [path for path in self.folder.iterdir() if path not in before] if self.folder.is_dir() else []
        aside.mkdir(parents=True)
        for path in files:
            path.rename(aside / path.name)
        for path in (aside / CONFIG, aside / PLAN):
            if path.is_file():  # later commands trust it at its new place, too
                made_here.write(self.folder.parent.parent, path, path.read_bytes())
        return aside

    def _choose_hosts(self, failure: Failure) -> str:
        """Replace a host that is lost or at fault again by a spare one, where there is one. Returns words on it."""
        is_gone = failure.cause.startswith(LOST) or failure.phase is None
        replaceable = is_gone or failure.host in self._at_fault
        if failure.host is not None:
            self._at_fault.add(failure.host)
        cluster = with_spare(self.job.cluster, failure.host, self.job.nnodes) if replaceable else None
        if cluster is None:
            return "on the same hosts"
        spare = self.job.cluster.nodes[self.job.nnodes].name
        self.job = replace(self.job, cluster=cluster)
        return f"on {spare} in place of {failure.host}"

    def _with_all_attempts(self, outcome: Outcome) -> Outcome:
        """The outcome with the time of all attempts; the phase `restarts` has that of all before the last one."""
        if not attempts.folders(self.folder):
            return outcome
        before = outcome.started - self._began
        phases = {node: {RESTARTS: before, **of_node} for node, of_node in outcome.phases.items()}
        return replace(outcome, phases=phases, started=self._began, seconds=outcome.seconds + before)


def is_loss(outcome: Outcome) -> bool:
    """Whether a rank or a host was lost. A restart cannot help a wrong value, a diverged loss, or without hosts."""
    failure = outcome.failure
    return (
        outcome.status == "failed"
        and failure is not None
        and failure.phase in (None, "start", "training")
        and not failure.is_refusal
        and TrainingError.__name__ not in failure.cause
        and not failure.cause.startswith(NO_HOSTS)
    )


def is_complete(checkpoint: Path) -> bool:
    """Whether all files of a checkpoint came from their hosts. The ranks compare their contents."""
    return hash_file(checkpoint).is_file() and all((checkpoint.parent / name).is_file() for name in hashes(checkpoint))


def with_spare(cluster: Cluster, host: str | None, nnodes: int) -> Cluster | None:
    """The cluster with its first spare host in place of a used one; None: no spare host, or an unused host."""
    used, spare = cluster.nodes[:nnodes], cluster.nodes[nnodes:]
    lost = next((node for node in used if node.name == host), None)
    if lost is None or not spare:
        return None
    nodes = tuple(spare[0] if node is lost else node for node in used)
    return replace(cluster, nodes=(*nodes, *spare[1:], lost))
