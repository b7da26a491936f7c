"""Brings the logs and checkpoints of a node: first the logs that judge the run, then all else, within limits."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from flagperf.contract.checkpoint import CHECKPOINTS
from flagperf.hosts.transport import UNREADABLE, FileRefused, FilesError, Listing, Transport
from flagperf.plain import plain
from flagperf.run.kept_files import by_umask, without_secrets
from flagperf.secret import Mask

JUDGED = re.compile(r"[^/.][^/]*\.log")  # logs of ranks, of their launcher and of monitors lie at the top
LARGEST = 1 << 30  # bytes of a file that are brought
LONGEST = 300.0  # seconds for the other files
AT_ONCE = 8  # other files that are brought at the same time
SAY_EVERY = 10.0  # seconds
SHOWN = 5  # most names of left out files in a warning

log = logging.getLogger(__name__)


async def bring(
    transport: Transport,
    log_dir: str,
    folder: Path,
    mask: Mask,
    *,
    limited: bool = True,
    say: Callable[[str], object] = log.info,
) -> bool:
    """Copy a node's logs and checkpoints to the round's folder on this machine, without secrets.

    Only regular files are copied. A missing folder is no error, nor is another file that cannot be brought: a warning
    names each kind.

    Args:
        limited: other files than logs have limits of size and time.
        say: takes messages about the progress.

    Returns:
        Whether the host has no further files that could be brought without the limits.

    Raises:
        HostError: a log that judges the run, or a checkpoint, cannot be brought; or the host is lost.
    """
    checkpoints = Path(log_dir).parent / CHECKPOINTS, folder.parent / CHECKPOINTS
    try:
        if transport.same_files:
            return True
        bringing = _Bringing(transport, limited, say)
        return await bringing.all(log_dir, folder, *checkpoints)
    finally:  # also for the files that were copied before the host was lost
        await asyncio.to_thread(without_secrets, folder, mask)
        await asyncio.to_thread(by_umask, folder, checkpoints[1])


class _Bringing:
    def __init__(self, transport: Transport, limited: bool, say: Callable[[str], object]) -> None:
        self._transport, self._limited, self._say = transport, limited, say

    async def all(self, log_dir: str, folder: Path, checkpoints: Path, checkpoints_here: Path) -> bool:
        """Bring all. Returns whether no limit left something out."""
        try:
            logs = await self._transport.listing(log_dir)
        except FileNotFoundError:
            log.warning("%s: %s does not exist any more; flagperf collects nothing from it", self._host, log_dir)
            return True
        for name, size in logs.files.items():
            if JUDGED.fullmatch(name):
                await self._log(f"{log_dir}/{name}", folder / name, size)
        await self._checkpoints(checkpoints, checkpoints_here)
        return await self._others(log_dir, folder, logs)

    @property
    def _host(self) -> str:
        return self._transport.host

    async def _checkpoints(self, folder: Path, here: Path) -> None:
        """Bring the checkpoints, if there are any."""
        try:
            saved = await self._transport.listing(str(folder))
        except FileNotFoundError:
            return
        for name in saved.files:
            await self._needed(f"{folder}/{name}", here / name)
        self._warn(saved)

    async def _needed(self, source: str, target: Path) -> None:
        """Bring a file that the run needs."""
        try:
            await self._transport.get(source, target)
        except FileNotFoundError as error:
            raise FileRefused(self._host, f"{source} does not exist any more") from error

    async def _log(self, source: str, target: Path, size: int) -> None:
        """Bring a log. Of a log that is too large the middle is left out."""
        if size <= LARGEST:
            await self._needed(source, target)
            return
        left = size - LARGEST
        log.warning(
            "%s: %s has %.1f GiB: only its first and its last %s are kept",
            *(self._host, target.name, size / 2**30, _gib(LARGEST // 2)),
        )
        with target.open("wb") as file:
            await self._piece(source, 0, LARGEST // 2, file)
            file.write(f"\nflagperf: {left} bytes of this log were left out here\n".encode())
            await self._piece(source, size - LARGEST // 2, size, file)

    async def _piece(self, source: str, offset: int, end: int, file: IO[bytes]) -> None:
        while offset < end and (data := await self._transport.read(source, offset)):
            file.write(data[: end - offset])
            offset += len(data)

    async def _others(self, log_dir: str, folder: Path, logs: Listing) -> bool:
        """Bring the other files, several at the same time."""
        for name in logs.folders:
            with suppress(OSError):
                (folder / name).mkdir(parents=True, exist_ok=True)
        others = {name: size for name, size in logs.files.items() if not JUDGED.fullmatch(name)}
        large = {name: size for name, size in others.items() if self._limited and size > LARGEST}
        names = [name for name in others if name not in large]
        brought = 0
        queue = iter(names)

        async def work() -> None:
            nonlocal brought
            for name in queue:
                try:
                    await self._transport.get(f"{log_dir}/{name}", folder / name)
                except (FileRefused, FileNotFoundError):
                    logs.left.setdefault(UNREADABLE, []).append(name)
                except OSError as error:
                    if error.errno not in (errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR, errno.ENOTDIR):
                        raise
                    logs.left.setdefault(UNREADABLE, []).append(name)
                brought += 1

        began, tasks = time.monotonic(), [asyncio.create_task(work()) for _ in range(min(AT_ONCE, len(names)))]
        try:
            while tasks and not all(task.done() for task in tasks):
                left = LONGEST - (time.monotonic() - began)
                if self._limited and left <= 0:
                    break
                wait = min(SAY_EVERY, left) if self._limited else SAY_EVERY
                done, _ = await asyncio.wait(tasks, timeout=wait, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
                if len(done) < len(tasks):
                    self._say(f"{self._host}: {brought} of {len(names)} other files")
        except FilesError as error:  # the logs that judge the run are here
            log.warning("%s: %s", self._host, error.problem)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._warn(logs)
        if large:
            shown = [f"{_shown(name)} ({size / 2**30:.1f} GiB)" for name, size in large.items()]
            log.warning("%s: files of more than %s were left out: %s", self._host, _gib(LARGEST), _list(shown))
        if unread := len(names) - brought:
            log.warning(
                "%s: %d of %d other files were left out after %.0f s",
                *(self._host, unread, len(names), time.monotonic() - began),
            )
        return not large and not unread

    def _warn(self, listing: Listing) -> None:
        """Name the files that were left out."""
        for reason, names in listing.left.items():
            shown = _list([_shown(name) for name in sorted(names)])
            log.warning("%s: %s among the logs were left out: %s", self._host, reason, shown)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")


def _gib(size: int) -> str:
    return f"{size / 2**30:g} GiB"


def _shown(name: str) -> str:
    """The name of a file as text. A name may have any bytes."""
    text = plain(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
    return text if len(text) <= 60 else f"{text[:60]}…"
