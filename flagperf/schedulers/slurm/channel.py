"""A connection to a node of a job: one long-lived srun that runs agent.py there. Requests run in parallel."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from itertools import count
from pathlib import Path
from typing import Any

from flagperf.config.schema.schedulers import Slurm
from flagperf.errors import HostError
from flagperf.hosts import guard
from flagperf.schedulers.slurm import agent
from flagperf.schedulers.slurm.commands import kill, one_line, spawn
from flagperf.schedulers.slurm.job import SlurmJob
from flagperf.schedulers.slurm.request import as_options

BOOT = "import sys; exec(compile(eval(sys.stdin.readline()), 'agent', 'exec'))"  # runs the first line of its input
IMAGE = "container-image"  # option of srun with pyxis
LONGEST = 1 << 24  # most bytes of one line; a piece of a file is shorter
LAST = 10  # last lines of srun's error output that are kept
END = 30.0  # seconds for the end of srun after the end of the agent


class Channel:
    """Requests to the agent of one node.

    Args:
        host: name of the node.
        job: the job that has the node.
    """

    def __init__(self, host: str, job: SlurmJob, slurm: Slurm) -> None:
        self.host, self.job, self._slurm = host, job, slurm
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._stderr_lines: deque[str] = deque(maxlen=LAST)
        self._process: asyncio.subprocess.Process | None = None
        self._following: asyncio.Task[None] | None = None
        self.lost: HostError | None = None

    @property
    def python(self) -> str:
        """The interpreter of the agent."""
        contained = IMAGE in self._slurm.step  # the agent runs in the container
        return sys.executable if self._slurm.shared and not contained else "python3"

    @property
    def argv(self) -> tuple[str, ...]:
        """The srun command: one task with all of the node's resources that the job has, beside other steps."""
        return (
            *("srun", f"--jobid={self.job.number}", f"--nodelist={self.host}", "--nodes=1", "--ntasks=1", "--overlap"),
            *("--cpu-bind=none", "--mpi=none", f"--chdir={Path.cwd() if self._slurm.shared else '/'}"),
            *("--job-name=flagperf", "--kill-on-bad-exit=0", "--quiet"),
            *as_options(self._slurm.step),
            *(self.python, "-I", "-S", "-u", "-c", BOOT),
        )

    async def open(self) -> None:
        """Start the agent."""
        self._process = await spawn(*self.argv, limit=LONGEST)
        self._following = asyncio.create_task(self._follow(self._process))
        program = Path(agent.__file__).read_text("utf-8")
        setup = json.dumps({"guard": Path(guard.__file__).read_text("utf-8")})
        await self._send(f"{program!a}\n{setup}\n")

    async def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """The agent's answer to a request.

        Raises:
            HostError: the node is lost.
            OSError: the request failed on the node.
        """
        if self.lost is not None:
            raise self.lost
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send(json.dumps({"number": number, "do": do, "with": arguments}) + "\n")
            result: dict[str, Any] = await answer
        finally:
            self._waiting.pop(number, None)
        if "error" in result:
            raise OSError(result["error"])
        return result

    async def close(self) -> None:
        """End the agent with its processes, and then srun."""
        if self._process is None or self._following is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._following), END)
        kill(self._process)
        await self._following

    async def _send(self, text: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # `_follow` finds the reason
            self._process.stdin.write(text.encode())
            await self._process.stdin.drain()

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Deliver the answers until srun ends."""
        assert process.stdout is not None and process.stderr is not None
        listening = asyncio.create_task(self._listen(process.stderr))
        try:
            async for line in process.stdout:
                self._deliver(line)
        except ValueError:
            self._stderr_lines.append(f"more than {LONGEST} bytes came in one line")
            kill(process)
        await process.wait()
        await listening
        self.lost = await self._end_reason()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self.lost)

    def _deliver(self, line: bytes) -> None:
        try:
            result = json.loads(line)
            answer = self._waiting.get(result["number"])
        except (ValueError, TypeError, KeyError):  # output of a site's prolog, possibly JSON
            return
        if answer and not answer.done():
            answer.set_result(result)

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        async for line in stderr:
            self._stderr_lines.append(line.decode(errors="replace").rstrip())

    async def _end_reason(self) -> HostError:
        """The error for the end of srun."""
        try:
            await self.job.check()
        except HostError as error:
            return error
        return HostError(self.host, f"srun ended: {one_line(os.linesep.join(self._stderr_lines))}")
