"""Nodes of Slurm for a job: those of an allocation that the user has, else of a new one.

A new one lives as long as the command that salloc runs, which waits for this process: whatever ends the launcher,
Slurm gets the nodes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.schedulers import Slurm
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, HostError
from flagperf.hosts.leftovers import this_owner
from flagperf.schedulers.slurm.awaited import queued
from flagperf.schedulers.slurm.commands import SLURM, ask, kill, said, spawn
from flagperf.schedulers.slurm.job import ending, host_names, job_fields
from flagperf.schedulers.slurm.never_satisfiable import never_satisfiable
from flagperf.schedulers.slurm.request import request, step

HOLD = 'echo "granted $SLURM_JOB_ID $SLURM_JOB_NODELIST"; exec cat >/dev/null'  # ends with standard input
FIRST_LOOK, LOOK = 1.0, 10.0  # seconds until the queue is looked at, and between two looks
FEW = 8  # nodes that are named one by one
RELEASE = 20.0  # seconds in which salloc gives the nodes back

Say = Callable[[str], None]
log = logging.getLogger(__name__)


def own_job(slurm: Slurm) -> int | None:
    """The allocation that the user has."""
    return slurm.job or int(os.environ.get("SLURM_JOB_ID", "0")) or None


async def own_nodes(slurm: Slurm) -> tuple[Node, ...]:
    """All nodes of the allocation that the user has; none without one.

    Raises:
        HostError: it has ended, or has not begun.
    """
    own = own_job(slurm)
    return _nodes((await _names(own))[1], slurm) if own else ()


@asynccontextmanager
async def slurm_nodes(job: JobConfig, slurm: Slurm, say: Say) -> AsyncIterator[tuple[tuple[Node, ...], Slurm]]:
    """The nodes of a job, and with them what the cluster's file says of Slurm, now with the job's id.

    Raises:
        HostError: Slurm gives no such nodes.
        ConfigError: the user's own allocation is too small.
    """
    if own := own_job(slurm):
        names = await _of_own(job, own)
        say(f"Slurm job {own}, which is there already: {', '.join(names[:FEW])}{' …' * (len(names) > FEW)}")
        yield _nodes(names, slurm), replace(slurm, job=own, step=step(job, slurm))
        return
    async with _Allocation(request(job, slurm, this_owner()), say) as allocation:
        yield _nodes(allocation.names, slurm), replace(slurm, job=allocation.job, step=step(job, slurm))


def _nodes(names: tuple[str, ...], slurm: Slurm) -> tuple[Node, ...]:
    return tuple(Node(name=name, address=name, shared=slurm.shared) for name in names)


async def _names(job: int) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What Slurm says of a job that runs, and its nodes."""
    fields = await job_fields(job)
    if fields.get("JobState") != "RUNNING":
        raise HostError(f"Slurm job {job}", f"it gives no nodes: {ending(fields.get('JobState', ''), fields)}")
    return fields, await host_names(fields["NodeList"])


async def _of_own(job: JobConfig, slurm_job: int) -> tuple[str, ...]:
    """The nodes of an allocation that is not ours to end."""
    fields, names = await _names(slurm_job)
    if job.container is not None and fields.get("OverSubscribe") != "NO":
        log.warning(
            "Slurm job %d may share its nodes with others: Slurm does not limit what a container uses", slurm_job
        )
    if len(names) < job.nnodes:
        problem = "the allocation has too few nodes"
        where = f"Slurm job {slurm_job}"
        raise ConfigError(problem, where=where, key="nnodes", given=job.nnodes, allowed=f"1 to {len(names)}")
    return names[: job.nnodes]


class _Allocation:
    """An allocation of our own, while the block runs."""

    job: int  # its id, once Slurm has taken the request
    names: tuple[str, ...]

    def __init__(self, options: list[str], say: Say) -> None:
        self._argv = ("salloc", *options, "sh", "-c", HOLD)
        self._say = say
        self._said: list[str] = []
        self._never: HostError | None = None  # why no waiting helps
        self._known = asyncio.Event()  # whether the job's id is

    async def __aenter__(self) -> _Allocation:
        log.info("asking Slurm: %s", " ".join(self._argv))
        self._process = await spawn(*self._argv)
        assert self._process.stdout is not None
        self._listening = asyncio.create_task(self._listen())
        telling = asyncio.create_task(self._tell())
        try:
            while not (line := (await self._process.stdout.readline()).decode()).startswith("granted "):
                if not line:
                    await self._listening
                    raise self._never or HostError(SLURM, f"no nodes: {said(os.linesep.join(self._said))}")
            _, job, nodes = line.split()
            self.job = int(job)
            self._known.set()
            self.names = await host_names(nodes)
        except BaseException:
            await asyncio.shield(self._release())
            raise
        finally:
            telling.cancel()
        self._say(f"Slurm job {self.job}: {', '.join(self.names) if len(self.names) <= FEW else nodes}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self._release())

    async def _listen(self) -> None:
        """Learn the id from what salloc says."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._said.append(text)
            log.debug("%s", text)
            if found := re.search(r"(?:Pending|Granted) job allocation (\d+)", text):
                self.job = int(found[1])
                self._known.set()

    async def _tell(self) -> None:
        """Say how the job stands in the queue, when that changes."""
        await self._known.wait()
        told, pause = "", FIRST_LOOK
        while True:
            await asyncio.sleep(pause)
            with contextlib.suppress(HostError):  # a controller that is busy now answers later
                if (text := await queued(str(self.job))) and text != told:
                    told = text
                    if never := never_satisfiable(text):
                        problem = f"no nodes: the request is never met: {never.sentence}"
                        self._never = HostError(SLURM, problem, advice=never.advice)
                        kill(self._process, signal.SIGTERM)
                    else:
                        self._say(f"Slurm job {self.job} {text}")
            pause = LOOK

    async def _release(self) -> None:
        """Give the nodes back, or take the request out of the queue. Raises nothing."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            if self._known.is_set():
                await ask("scancel", "--quiet", str(self.job))
            else:
                kill(self._process, signal.SIGTERM)
            await asyncio.wait_for(self._process.wait(), RELEASE)
        except (HostError, asyncio.TimeoutError) as error:
            log.warning("Slurm may still have our job; look with squeue --me: %s", error)
        finally:
            kill(self._process)
            self._listening.cancel()
