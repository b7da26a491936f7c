"""This machine as a Transport."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from typing_extensions import override

from flagperf.contract.command import Command
from flagperf.contract.outcome import Outage
from flagperf.hosts import guard
from flagperf.hosts.transport import READ_SIZE, Completed, Process, Transport, logged, no_answer


class LocalProcess(Process):
    """A command under `flagperf.hosts.guard`, which ends its whole process tree."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @override
    async def wait(self) -> int | None:
        return await self._process.wait()

    @override
    async def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()  # tells the guard to stop all processes
        await self._process.wait()


class LocalTransport(Transport):
    """This machine."""

    local = same_files = True
    python: str | None = sys.executable
    linger: float | None = None
    clock_offset = 0.0
    outages: Sequence[Outage] = ()

    def __init__(self, host: str, address: str = "127.0.0.1") -> None:
        self.host = host
        self.address = address
        self._started: list[LocalProcess] = []

    async def __aenter__(self) -> LocalTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(process.stop() for process in self._started))

    @override
    @logged
    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        try:
            process = await asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=command.cwd,
                env={**os.environ, **command.env},
                start_new_session=True,
            )
        except OSError as error:  # no such program: the answer of a shell
            return Completed(command, 127, "", f"{command.argv[0]}: {error.strerror}")
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(stdin), timeout)
        except asyncio.TimeoutError:
            raise no_answer(self.host, command, timeout) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):  # the process has ended, but asyncio does not know yet
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return Completed(command, process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    @override
    @logged
    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        argv = (sys.executable, "-I", "-S", guard.__file__, str(grace), *command.argv)
        with Path(log).open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=command.cwd,
                env={**os.environ, **command.env},
                start_new_session=True,  # Ctrl-C must not reach the command
            )
        started = LocalProcess(process)
        self._started.append(started)
        return started

    @override
    async def read(self, path: str, offset: int = 0) -> bytes:
        if not Path(path).is_file():  # opening a pipe would wait for a writer
            return b""
        try:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return file.read(READ_SIZE)
        except FileNotFoundError:
            return b""

    @override
    async def put(self, source: Path, target: str) -> None:
        _copy(source, Path(target), shutil.copy2)

    @override
    async def get(self, source: str, target: Path) -> None:
        _copy(Path(source), target, shutil.copyfile)

    @override
    def unix_socket(self, path: str) -> AbstractAsyncContextManager[str]:
        return nullcontext(path)


def _copy(source: Path, target: Path, copy_file: Callable[[Any, Any], object]) -> None:
    """Copy a file or folder, unless both paths are the same file.

    Args:
        copy_file: shutil.copyfile gives the copies permissions by the umask, shutil.copy2 those of the source.
    """
    if target.exists() and source.samefile(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, copy_function=copy_file)
    else:
        copy_file(source, target)
