"""Examines bundles in processes apart from the command: whatever one holds, there is an answer, and the others go on.

Readers refuse what flagperf never writes. This module is the boundary for all that they do not expect: any exception,
memory or time without end, the death of the process.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from flagperf.errors import ConfigError, FlagperfError

T = TypeVar("T")

MEMORY = 8 << 30  # bytes that the examination of a bundle may need; all together at most half of the machine's
SECONDS, SECONDS_PER_MIB = 120, 10  # of a processor; a MiB of a bundle holds some 15 MiB of logs
SLOWEST = 5  # times as many seconds by the clock: processes share processors, and a file may never come
LONGEST = 300  # characters of an unexpected exception
FORK: Any = multiprocessing.get_context("fork")  # the work and its values need not be pickled


@dataclass(frozen=True)
class Refused:
    """A bundle that could not be examined."""

    path: Path
    reason: str
    error: ConfigError | None = None  # of a file that is no bundle


def examine(work: Callable[[Path, Path], T], bundles: Sequence[Path], workers: int = 1) -> Iterator[T | Refused]:
    """The answer of `work` about each bundle, in order.

    Args:
        work: takes a bundle and an empty folder.
        workers: processes at the same time.
    """
    with ExitStack() as ends:
        parts = [bundles[number::workers] for number in range(workers)]
        examiners = [ends.enter_context(_Examiner(work, part, workers)) for part in parts]
        for number in range(len(bundles)):
            yield examiners[number % workers].answer()


class _Examiner(Generic[T]):
    """A process that examines bundles one after the other. After a bundle that ends it, a new process goes on."""

    def __init__(self, work: Callable[[Path, Path], T], bundles: Sequence[Path], workers: int) -> None:
        self._work, self._workers = work, workers
        self._waiting = deque(bundles)
        self._process: Any = None

    def __enter__(self) -> _Examiner[T]:
        self._folder = tempfile.TemporaryDirectory(prefix="flagperf-bundles-", ignore_cleanup_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def answer(self) -> T | Refused:
        """The answer about the next bundle, or the reason why there is none."""
        if self._process is None:
            self._start()
        bundle = self._waiting.popleft()
        goes_on = False
        longest = SLOWEST * _seconds(bundle)
        try:
            if self._answers.poll(longest):
                answer, goes_on = pickle.loads(self._answers.recv_bytes())  # of our own process
            else:
                answer = Refused(bundle, f"its examination took more than {longest} s")
        except EOFError:
            self._process.join()
            answer = Refused(bundle, self._death(bundle))
        if not goes_on:
            self._stop()
        return answer  # type: ignore[no-any-return]

    def _start(self) -> None:
        self._answers, sender = FORK.Pipe(duplex=False)
        folder = tempfile.mkdtemp(dir=self._folder.name)
        self._process = FORK.Process(target=self._run, args=(Path(folder), sender), daemon=True)
        with warnings.catch_warnings():  # newer versions of Python warn of threads; the launcher has none here
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        sender.close()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._answers.close()
            self._process = None

    def _death(self, bundle: Path) -> str:
        status = self._process.exitcode
        if status == -signal.SIGXCPU:
            return f"its examination took more than {_seconds(bundle)} s of a processor"
        ended = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
        return f"the process that examined it ended {ended}; did the memory suffice?"

    def _run(self, folder: Path, sender: Connection) -> None:
        """In the process: send the answers. After an exception that no reader expects, the process ends."""
        _limit_memory(self._workers)
        for number, bundle in enumerate(self._waiting):
            _limit_time(bundle)
            own = folder / str(number)
            own.mkdir()
            goes_on = True
            try:
                data = pickle.dumps((self._work(bundle, own), True))
            except BaseException as error:  # the boundary
                goes_on = isinstance(error, FlagperfError)
                data = pickle.dumps((_refused(bundle, error), goes_on))
            sender.send_bytes(data)
            if not goes_on:
                return
            shutil.rmtree(own, ignore_errors=True)


def _refused(bundle: Path, error: BaseException) -> Refused:
    if isinstance(error, MemoryError):
        return Refused(bundle, "its examination needs too much memory")
    if isinstance(error, FlagperfError):
        return Refused(bundle, str(error), error if isinstance(error, ConfigError) else None)
    if isinstance(error, OSError):
        return Refused(bundle, f"a file cannot be read: {error}")
    text = f"{type(error).__name__} {error}"[:LONGEST]
    return Refused(bundle, f"flagperf does not write files like these: {text}")


def _limit_memory(workers: int) -> None:
    """Limit the memory that this process adds to that of its parent."""
    page = resource.getpagesize()
    physical = os.sysconf("SC_PHYS_PAGES") * page
    used = int(Path("/proc/self/statm").read_text().split()[0]) * page
    _limit(resource.RLIMIT_AS, used + min(MEMORY, physical // 2 // workers))
    _limit(resource.RLIMIT_CORE, 0)


def _limit_time(bundle: Path) -> None:
    """Limit the time of a processor from now on."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + _seconds(bundle))


def _limit(kind: int, limit: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _seconds(bundle: Path) -> int:
    size = bundle.stat().st_size if bundle.exists() else 0
    return SECONDS + SECONDS_PER_MIB * (size >> 20)
