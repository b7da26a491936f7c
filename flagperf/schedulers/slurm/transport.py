"""A node of a Slurm job as a Transport, over one srun. The node needs Python 3.8, and nothing of flagperf."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.schedulers import Slurm
from flagperf.contract.command import Command
from flagperf.contract.outcome import Outage
from flagperf.errors import HostError
from flagperf.hosts.awake import Pulse, within
from flagperf.hosts.clock import clock_offset
from flagperf.hosts.transport import (
    DEEP,
    DEEPEST,
    FILES,
    FILES_AGAIN,
    LINKS,
    UNREADABLE,
    Completed,
    FileRefused,
    FilesError,
    Listing,
    Process,
    Transport,
    logged,
    no_answer,
)
from flagperf.schedulers.slurm.agent import encoded
from flagperf.schedulers.slurm.channel import Channel
from flagperf.schedulers.slurm.job import SlurmJob
from flagperf.schedulers.slurm.streams import PIECE, socket_of

STEP_LIMITS = 3  # times the limit of a connection that a step may take to begin: the site's prolog runs first
MARGIN = 10.0  # seconds that an answer may take beyond the command itself

T = TypeVar("T")


class SrunProcess(Process):
    """A long command under the guard of a node."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel, self._number = channel, number
        self._ended = asyncio.create_task(self._end())

    async def _end(self) -> int | None:
        try:
            return int((await self._channel.ask("wait", number=self._number))["status"])
        except HostError:
            return None

    @override
    async def wait(self) -> int | None:
        return await asyncio.shield(self._ended)

    @override
    async def stop(self) -> None:
        if not self._ended.done() and self._channel.lost is None:
            with contextlib.suppress(HostError):  # Slurm has ended the command
                await self._channel.ask("stop", number=self._number)
        await self.wait()

    @override
    async def reason(self) -> str | None:
        await self._channel.job.check()
        if self._channel.lost is not None:
            raise self._channel.lost
        return None


class SrunTransport(Transport):
    """One node of an allocation.

    Args:
        node: a node of the allocation.
        job: the allocation.
        slurm: the options of the step that runs the agent.
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
                answer = await asyncio.wait_for(self.channel.ask("hello"), self._timeout)
            except asyncio.TimeoutError:
                raise HostError(self.host, f"srun started nothing there within {self._timeout:g} s") from None
            self.address = answer["address"] or self.address
            self.clock_offset = await clock_offset(self._read_clock)
        except BaseException:
            await self.channel.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.gather(*(process.stop() for process in self._started))
        finally:
            await self.channel.close()

    async def _read_clock(self) -> float:
        return float((await self.channel.ask("clock"))["time"])

    @override
    async def check_held(self) -> None:
        await self.channel.job.check()

    @override
    @logged
    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        request = self.channel.ask("run", **_fields(command), timeout=timeout, stdin=encoded(stdin))
        try:
            answer = await asyncio.wait_for(request, timeout + MARGIN)
        except asyncio.TimeoutError:
            raise no_answer(self.host, command, timeout) from None
        if "late" in answer:
            raise no_answer(self.host, command, timeout)
        output = (base64.b64decode(answer[name]).decode(errors="replace") for name in ("stdout", "stderr"))
        return Completed(command, answer["status"], *output)

    @override
    @logged
    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        number = next(self._numbers)
        try:
            await self.channel.ask("start", number=number, **_fields(command), log=log, grace=grace)
        except OSError as error:
            raise HostError(self.host, f"cannot start a command: {error}") from error
        process = SrunProcess(self.channel, number)
        self._started.append(process)
        return process

    @override
    async def read(self, path: str, offset: int = 0) -> bytes:
        return await self._piece(path, offset)

    @override
    async def put(self, source: Path, target: str) -> None:
        if self.same_files and Path(target).exists() and source.samefile(target):
            return
        await self._while_moving(partial(self._put, source, target))

    async def _put(self, source: Path, target: str, pulse: Pulse) -> None:
        if not source.is_dir():
            await self._send_file(source, target, pulse)
            return
        below = sorted(source.rglob("*"))
        folders = [f"{target}/{path.relative_to(source)}" for path in below if path.is_dir()]
        await self.channel.ask("make", folders=[target, *folders])
        for path in below:
            if path.is_file():
                await self._send_file(path, f"{target}/{path.relative_to(source)}", pulse)

    @override
    async def listing(self, folder: str) -> Listing:
        answer = await self._while_moving(lambda _: self.channel.ask("walk", path=folder, deepest=DEEPEST))
        if "absent" in answer:
            raise FileNotFoundError(folder)
        reasons = {"special": LINKS, "unreadable": UNREADABLE, "deep": DEEP}
        left = {reason: list(answer[key]) for key, reason in reasons.items() if answer[key]}
        return Listing(answer["files"], answer["folders"], left)

    @override
    async def get(self, source: str, target: Path) -> None:
        await self._while_moving(partial(self._fetch_file, source, target))

    @override
    def unix_socket(self, path: str) -> AbstractAsyncContextManager[str]:
        return socket_of(self.channel, path, self._numbers)

    async def _while_moving(self, copy: Callable[[Pulse], Awaitable[T]]) -> T:
        """Copy files as long as they move."""
        pulse = Pulse()
        try:
            return await within(copy(pulse), FILES + FILES_AGAIN, pulse)
        except asyncio.TimeoutError:
            raise FilesError(self.host) from None
        except OSError as error:
            if error.errno is not None:  # of this machine
                raise
            raise FileRefused(self.host, error) from error

    async def _send_file(self, source: Path, target: str, pulse: Pulse) -> None:
        mode, offset = source.stat().st_mode & 0o777, 0
        with source.open("rb") as file:
            while (data := file.read(PIECE)) or not offset:
                await self.channel.ask("write", path=target, offset=offset, data=encoded(data), mode=mode)
                pulse.beat()
                offset += len(data)
                if not data:
                    return

    async def _fetch_file(self, source: str, target: Path, pulse: Pulse) -> None:
        if not (await self.channel.ask("kind", path=source))["regular"]:
            raise FileNotFoundError(errno.ENOENT, "no regular file", source)
        target.parent.mkdir(parents=True, exist_ok=True)
        offset = 0
        with target.open("wb") as file:
            while data := await self._piece(source, offset):
                file.write(data)
                offset += len(data)
                pulse.beat()

    async def _piece(self, path: str, offset: int) -> bytes:
        return base64.b64decode((await self.channel.ask("read", path=path, offset=offset, size=PIECE))["data"])


def _fields(command: Command) -> dict[str, object]:
    return {"argv": command.argv, "env": dict(command.env), "cwd": command.cwd}
