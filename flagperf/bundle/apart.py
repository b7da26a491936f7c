"""Examines bundles in processes of their own: whatever a bundle holds, there is an answer, and the others have theirs.

Readers refuse what flagperf never writes. This module is the boundary for all that they do not expect: any exception,
memory or time without end, the death of the process.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from flagperf.errors import ConfigError, FlagperfError

T = TypeVar("T")

MEMORY = 8 << 30  # bytes that the examination of a bundle may need, at most half of the machine's
SECONDS, SECONDS_PER_MIB = 120, 10  # of a processor; a MiB of a bundle holds some 15 MiB of logs
LONGEST = 300  # characters of an unexpected exception
FORK: Any = multiprocessing.get_context("fork")  # the work and its values need not be pickled


@dataclass(frozen=True)
class Refused:
    """A bundle that could not be examined."""

    path: Path
    reason: str
    error: ConfigError | None = None  # of a file that is no bundle


def examine(work: Callable[[Path, Path], T], bundles: Iterable[Path], workers: int = 1) -> Iterator[T | Refused]:
    """The answer of `work` about each bundle, in order.

    Args:
        work: takes a bundle and an empty folder.
        workers: processes at the same time.
    """
    running: deque[_Examination[T]] = deque()
    with ExitStack() as ends:
        for bundle in bundles:
            if len(running) == workers:
                yield running.popleft().answer()
            running.append(ends.enter_context(_Examination(work, bundle, workers)))
        while running:
            yield running.popleft().answer()


@dataclass
class _Examination(Generic[T]):
    """One bundle in its process. Process and folder are gone after the block."""

    work: Callable[[Path, Path], T]
    bundle: Path
    workers: int
    _ends: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> _Examination[T]:
        folder = self._ends.enter_context(
            tempfile.TemporaryDirectory(prefix="flagperf-bundle-", ignore_cleanup_errors=True)
        )
        self._answers, sender = FORK.Pipe(duplex=False)
        self._ends.callback(self._answers.close)
        self._process = FORK.Process(target=self._run, args=(Path(folder), sender), daemon=True)
        with warnings.catch_warnings():  # newer versions of Python warn of threads; the launcher has none here
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        self._ends.callback(self._stop)
        sender.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def answer(self) -> T | Refused:
        """The answer, or the reason why there is none."""
        try:
            answer: T | Refused = pickle.loads(self._answers.recv_bytes())  # of our own process
        except EOFError:
            self._process.join()
            answer = Refused(self.bundle, self._death())
        self._ends.close()
        return answer

    def _death(self) -> str:
        status = self._process.exitcode
        if status == -signal.SIGXCPU:
            return f"its examination took more than {_seconds(self.bundle)} s of a processor"
        ended = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
        return f"the process that examined it ended {ended}; did the memory suffice?"

    def _stop(self) -> None:
        self._process.kill()
        self._process.join()

    def _run(self, folder: Path, sender: Connection) -> None:
        """In the process: send the answer."""
        _limit(self.bundle, self.workers)
        try:
            answer: object = self.work(self.bundle, folder)
            data = pickle.dumps(answer)
        except BaseException as error:  # the boundary
            data = pickle.dumps(_refused(self.bundle, error))
        sender.send_bytes(data)


def _refused(bundle: Path, error: BaseException) -> Refused:
    if isinstance(error, MemoryError):
        return Refused(bundle, "its examination needs too much memory")
    if isinstance(error, FlagperfError):
        return Refused(bundle, str(error), error if isinstance(error, ConfigError) else None)
    if isinstance(error, OSError):
        return Refused(bundle, f"a file cannot be read: {error}")
    text = f"{type(error).__name__} {error}"[:LONGEST]
    return Refused(bundle, f"flagperf does not write files like these: {text}")


def _limit(bundle: Path, workers: int) -> None:
    """Limit memory and time of this process."""
    page = resource.getpagesize()
    physical = os.sysconf("SC_PHYS_PAGES") * page
    used = int(Path("/proc/self/statm").read_text().split()[0]) * page
    limits = {
        resource.RLIMIT_AS: used + min(MEMORY, physical // 2) // workers,
        resource.RLIMIT_CPU: _seconds(bundle),
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _seconds(bundle: Path) -> int:
    size = bundle.stat().st_size if bundle.exists() else 0
    return SECONDS + SECONDS_PER_MIB * (size >> 20)
