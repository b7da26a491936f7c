"""The way to a node of a job: one long-lived srun, whose task there is agent.py. Requests run side by side."""

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
from flagperf.schedulers.slurm.commands import kill, said, spawn
from flagperf.schedulers.slurm.job import SlurmJob
from flagperf.schedulers.slurm.request import written

BOOT = "import sys; exec(compile(eval(sys.stdin.readline()), 'agent', 'exec'))"  # runs the program that comes first
IMAGE = "container-image"  # option of srun, where the site has pyxis
LONGEST = 1 << 24  # bytes of one line: a piece of a file, with room to spare
LAST = 10  # lines of what srun said that are kept
END = 30.0  # seconds in which srun ends once the agent has


class Channel:
    """Requests to the agent of one node.

    Args:
        host: name of the node.
        job: whose node it is.
    """

    def __init__(self, host: str, job: SlurmJob, slurm: Slurm) -> None:
        self.host, self.job, self._slurm = host, job, slurm
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._said: deque[str] = deque(maxlen=LAST)
        self._process: asyncio.subprocess.Process | None = None
        self._following: asyncio.Task[None] | None = None
        self.lost: HostError | None = None

    @property
    def python(self) -> str:
        """The interpreter of the agent."""
        contained = IMAGE in self._slurm.step  # the agent too: it has the files of the image
        return sys.executable if self._slurm.shared and not contained else "python3"

    @property
    def argv(self) -> tuple[str, ...]:
        """The step: one task, beside other steps, on all that the job has of the node."""
        return (
            *("srun", f"--jobid={self.job.number}", f"--nodelist={self.host}", "--nodes=1", "--ntasks=1", "--overlap"),
            *("--cpu-bind=none", "--mpi=none", f"--chdir={Path.cwd() if self._slurm.shared else '/'}"),
            *("--job-name=flagperf", "--kill-on-bad-exit=0", "--quiet"),
            *written(self._slurm.step),
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
        """What the agent answers.

        Raises:
            HostError: the node is lost.
            OSError: it cannot be done there, for the reason given.
        """
        if self.lost is not None:
            raise self.lost
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send(json.dumps({"number": number, "do": do, "with": arguments}) + "\n")
            found: dict[str, Any] = await answer
        finally:
            self._waiting.pop(number, None)
        if "error" in found:
            raise OSError(found["error"])
        return found

    async def close(self) -> None:
        """End the agent, with all that it runs, and then the step."""
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
        with contextlib.suppress(ConnectionError):  # the reader finds out why
            self._process.stdin.write(text.encode())
            await self._process.stdin.drain()

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Hand out the answers, until srun ends."""
        assert process.stdout is not None and process.stderr is not None
        listening = asyncio.create_task(self._listen(process.stderr))
        try:
            async for line in process.stdout:
                self._hand_out(line)
        except ValueError:
            self._said.append(f"more than {LONGEST} bytes came in one line")
            kill(process)
        await process.wait()
        await listening
        self.lost = await self._why()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self.lost)

    def _hand_out(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            answer = self._waiting.get(found["number"])
        except (ValueError, TypeError, KeyError):  # what a site's prolog prints, which may be JSON too
            return
        if answer and not answer.done():
            answer.set_result(found)

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        async for line in stderr:
            self._said.append(line.decode(errors="replace").rstrip())

    async def _why(self) -> HostError:
        """Why the step ended."""
        try:
            await self.job.check()
        except HostError as error:
            return error
        return HostError(self.host, f"srun ended: {said(os.linesep.join(self._said))}")
