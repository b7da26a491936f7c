"""Nodes of Slurm for a job, from the user's allocation or from a new one.

A new allocation lives as long as the command of salloc, which waits for this process. So Slurm gets the nodes back at
any end of the launcher.
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
from flagperf.schedulers.slurm.commands import SLURM, ask, kill, one_line, spawn
from flagperf.schedulers.slurm.job import ending, host_names, job_fields
from flagperf.schedulers.slurm.never_satisfiable import never_satisfiable
from flagperf.schedulers.slurm.queue_state import waiting_text
from flagperf.schedulers.slurm.request import request, step_options

HOLD = 'echo "granted $SLURM_JOB_ID $SLURM_JOB_NODELIST"; exec cat >/dev/null'  # ends with standard input
FIRST_LOOK, LOOK = 1.0, 10.0  # seconds before the first look at the queue, and between two looks
FEW = 8  # most nodes that are all named
RELEASE = 20.0  # seconds for salloc to release the nodes

Say = Callable[[str], None]
log = logging.getLogger(__name__)


def user_job(slurm: Slurm) -> int | None:
    """ID of the user's allocation; None: the user has none."""
    return slurm.job or int(os.environ.get("SLURM_JOB_ID", "0")) or None


async def user_nodes(slurm: Slurm) -> tuple[Node, ...]:
    """All nodes of the user's allocation; empty without an allocation.

    Raises:
        HostError: the allocation has ended, or has not begun.
    """
    number = user_job(slurm)
    return _nodes((await _names(number))[1], slurm) if number else ()


@asynccontextmanager
async def slurm_nodes(job: JobConfig, slurm: Slurm, say: Say) -> AsyncIterator[tuple[tuple[Node, ...], Slurm]]:
    """The nodes of a job, and the cluster's section `slurm` with the ID of the Slurm job.

    Raises:
        HostError: Slurm gives no such nodes.
        ConfigError: the user's own allocation is too small.
    """
    if number := user_job(slurm):
        names = await _user_names(job, number)
        say(f"Slurm job {number}, which exists already: {', '.join(names[:FEW])}{' …' * (len(names) > FEW)}")
        yield _nodes(names, slurm), replace(slurm, job=number, step=step_options(job, slurm))
        return
    async with _Allocation(request(job, slurm, this_owner()), say) as allocation:
        yield _nodes(allocation.names, slurm), replace(slurm, job=allocation.job, step=step_options(job, slurm))


def _nodes(names: tuple[str, ...], slurm: Slurm) -> tuple[Node, ...]:
    return tuple(Node(name=name, address=name, shared=slurm.shared) for name in names)


async def _names(job: int) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Slurm's fields of a running job, and the names of its nodes."""
    fields = await job_fields(job)
    if fields.get("JobState") != "RUNNING":
        raise HostError(f"Slurm job {job}", f"it gives no nodes: {ending(fields.get('JobState', ''), fields)}")
    return fields, await host_names(fields["NodeList"])


async def _user_names(job: JobConfig, slurm_job: int) -> tuple[str, ...]:
    """The nodes of the user's allocation for a job."""
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
    """A new allocation, while the block runs."""

    job: int  # ID, after Slurm has accepted the request
    names: tuple[str, ...]

    def __init__(self, options: list[str], say: Say) -> None:
        self._argv = ("salloc", *options, "sh", "-c", HOLD)
        self._say = say
        self._stderr_lines: list[str] = []
        self._refusal: HostError | None = None  # why the request can never be met
        self._id_known = asyncio.Event()  # set when `job` is known

    async def __aenter__(self) -> _Allocation:
        log.info("asking Slurm: %s", " ".join(self._argv))
        self._process = await spawn(*self._argv)
        assert self._process.stdout is not None
        self._listening = asyncio.create_task(self._listen())
        telling = asyncio.create_task(self._report_queue())
        try:
            while not (line := (await self._process.stdout.readline()).decode(errors="replace")).startswith("granted "):
                if not line:
                    await self._listening
                    raise self._refusal or HostError(
                        SLURM, f"no nodes: {one_line(os.linesep.join(self._stderr_lines))}"
                    )
            _, job, nodes = line.split()
            self.job = int(job)
            self._id_known.set()
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
        """Read the ID from salloc's error output."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._stderr_lines.append(text)
            log.debug("%s", text)
            if match := re.search(r"(?:Pending|Granted) job allocation (\d+)", text):
                self.job = int(match[1])
                self._id_known.set()

    async def _report_queue(self) -> None:
        """Report each change of the job's state in the queue."""
        await self._id_known.wait()
        reported, pause = "", FIRST_LOOK
        while True:
            await asyncio.sleep(pause)
            with contextlib.suppress(HostError):  # a busy controller answers later
                if (text := await waiting_text(str(self.job))) and text != reported:
                    reported = text
                    if never := never_satisfiable(text):
                        problem = f"no nodes: Slurm can never satisfy the request: {never.sentence}"
                        self._refusal = HostError(SLURM, problem, advice=never.advice)
                        kill(self._process, signal.SIGTERM)
                    else:
                        self._say(f"Slurm job {self.job} {text}")
            pause = LOOK

    async def _release(self) -> None:
        """Release the nodes, or cancel the request. Raises nothing."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            if self._id_known.is_set():
                await ask("scancel", "--quiet", str(self.job))
            else:
                kill(self._process, signal.SIGTERM)
            await asyncio.wait_for(self._process.wait(), RELEASE)
        except (HostError, asyncio.TimeoutError) as error:
            log.warning("Slurm may still have the job of this run; squeue --me shows it: %s", error)
        finally:
            kill(self._process)
            self._listening.cancel()
