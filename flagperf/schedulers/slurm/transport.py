"""A node of a Slurm job as a Transport, over one srun. It needs Python 3.8 there, and nothing of ours."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path
from types import TracebackType

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.schedulers import Slurm
from flagperf.contract.command import Command
from flagperf.contract.outcome import Outage
from flagperf.errors import HostError
from flagperf.hosts.transport import Completed, Process, logged
from flagperf.schedulers.slurm.agent import encoded
from flagperf.schedulers.slurm.channel import Channel
from flagperf.schedulers.slurm.job import SlurmJob
from flagperf.schedulers.slurm.streams import PIECE, socket_of

CLOCK_LOOKS = 5  # times that a node is asked for its time; the quickest answer counts
STEP_LIMITS = 3  # times the limit of a connection that a step may take to begin: the site's prolog runs first
MARGIN = 10.0  # seconds that an answer may take beyond the command itself


class SrunProcess:
    """A long command under the guard of a node."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel, self._number = channel, number
        self._ended = asyncio.create_task(self._end())

    async def _end(self) -> int | None:
        try:
            return int((await self._channel.ask("wait", number=self._number))["status"])
        except HostError:
            return None

    async def wait(self) -> int | None:
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        if not self._ended.done() and self._channel.lost is None:
            with contextlib.suppress(HostError):  # then Slurm has ended it
                await self._channel.ask("stop", number=self._number)
        await self.wait()

    async def reason(self) -> str | None:
        """Raises LostAllocation where Slurm ended the job, and with it the command."""
        await self._channel.job.check()
        if self._channel.lost is not None:
            raise self._channel.lost
        return None


class SrunTransport:
    """One node of an allocation.

    Args:
        node: which.
        job: the allocation.
        timeout: seconds for a connection.
    """

    local = False
    clock_offset = 0.0
    linger: float | None = None
    outages: Sequence[Outage] = ()

    def __init__(self, node: Node, job: SlurmJob, slurm: Slurm, timeout: float) -> None:
        self.host, self.address, self.same_files = node.name, node.address, node.shared
        self.channel = Channel(node.name, job, slurm)
        self.python: str | None = self.channel.python
        self._timeout = STEP_LIMITS * timeout
        self._numbers = count(1)
        self._started: list[SrunProcess] = []

    async def __aenter__(self) -> SrunTransport:
        try:
            await self.channel.open()
            try:
                told = await asyncio.wait_for(self.channel.ask("hello"), self._timeout)
            except asyncio.TimeoutError:
                raise HostError(self.host, f"srun started nothing there within {self._timeout:g} s") from None
            self.address = told["address"] or self.address
            self.clock_offset = await self._clock_offset()
        except BaseException:
            await self.channel.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.gather(*(process.stop() for process in self._started))
        finally:
            await self.channel.close()

    async def _clock_offset(self) -> float:
        """Seconds that its clock is ahead, by the quickest of several answers."""
        looks = []
        for _ in range(CLOCK_LOOKS):
            asked, began = time.time(), time.monotonic()
            there = float((await self.channel.ask("clock"))["time"])
            trip = time.monotonic() - began
            looks.append((trip, there - asked - trip / 2))
        return min(looks)[1]

    async def check_held(self) -> None:
        await self.channel.job.check()

    @logged
    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        asked = self.channel.ask("run", **_of(command), timeout=timeout, stdin=encoded(stdin))
        try:
            done = await asyncio.wait_for(asked, timeout + MARGIN)
        except asyncio.TimeoutError:
            done = {"late": True}
        if "late" in done:
            raise HostError(self.host, f"no answer within {timeout:g} s from: {command.line()}")
        output = (base64.b64decode(done[name]).decode(errors="replace") for name in ("stdout", "stderr"))
        return Completed(command, done["status"], *output)

    @logged
    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        number = next(self._numbers)
        try:
            await self.channel.ask("start", number=number, **_of(command), log=log, grace=grace)
        except OSError as error:
            raise HostError(self.host, f"cannot start a command: {error}") from error
        process = SrunProcess(self.channel, number)
        self._started.append(process)
        return process

    async def read(self, path: str, offset: int = 0) -> bytes:
        return await self._piece(path, offset)

    async def put(self, source: Path, target: str) -> None:
        if self.same_files and Path(target).exists() and source.samefile(target):
            return
        with self._files():
            if not source.is_dir():
                await self._send(source, target)
                return
            below = sorted(source.rglob("*"))
            folders = [f"{target}/{path.relative_to(source)}" for path in below if path.is_dir()]
            await self.channel.ask("make", folders=[target, *folders])
            for path in below:
                if path.is_file():
                    await self._send(path, f"{target}/{path.relative_to(source)}")

    async def get(self, source: str, target: Path) -> Sequence[str]:
        found = await self.channel.ask("walk", path=source)
        if "absent" in found:
            raise FileNotFoundError(source)
        with self._files():
            for folder in found["folders"]:
                (target / folder).mkdir(parents=True, exist_ok=True)
            for name, mode in found["files"].items():
                await self._bring(f"{source}/{name}" if name else source, target / name if name else target, mode)
        return list(found["left"])

    def unix_socket(self, path: str) -> AbstractAsyncContextManager[str]:
        return socket_of(self.channel, path, self._numbers)

    async def _send(self, source: Path, target: str) -> None:
        mode, offset = source.stat().st_mode & 0o777, 0
        with source.open("rb") as file:
            while (data := file.read(PIECE)) or not offset:
                await self.channel.ask("write", path=target, offset=offset, data=encoded(data), mode=mode)
                offset += len(data)
                if not data:
                    return

    async def _bring(self, source: str, target: Path, mode: int) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        offset = 0
        with target.open("wb") as file:
            while data := await self._piece(source, offset):
                file.write(data)
                offset += len(data)
        target.chmod(mode)

    async def _piece(self, path: str, offset: int) -> bytes:
        return base64.b64decode((await self.channel.ask("read", path=path, offset=offset, size=PIECE))["data"])

    @contextlib.contextmanager
    def _files(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HostError(self.host, f"a file cannot be copied: {error}") from error


def _of(command: Command) -> dict[str, object]:
    return {"argv": command.argv, "env": dict(command.env), "cwd": command.cwd}
