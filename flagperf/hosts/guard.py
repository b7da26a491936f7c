"""Runs one command and ends all of its processes, even when the program that started it is killed.

    python -I -S guard.py GRACE COMMAND...

When standard input closes (the launcher stopped it, was killed, or lost its connection), or a signal asks the guard to
end, every descendant gets SIGTERM, and SIGKILL after GRACE seconds. When the command ends by itself, what it left
running is killed at once. The guard ends as the command did: with its exit status, or by the same signal.

Only the standard library, and no import of flagperf: the file runs alone on a host. Linux only: as "child
subreaper" the guard inherits orphans, so that ranks in sessions of their own stay its descendants.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # mean the same as standard input closing
KILL_WITHIN = 5.0  # seconds; a process in uninterruptible sleep is given up after this


def descendants() -> set[int]:
    """Process ids of all living descendants of this process."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # ended meanwhile
        if state != "Z":
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting.extend(below)
    return found


def signal_all(number: int, seconds: float) -> bool:
    """Send a signal to every descendant and wait for their end, at most `seconds`. Returns whether none is left."""
    signalled: set[int] = set()
    deadline = time.monotonic() + seconds
    while alive := descendants():
        for pid in alive - signalled:  # also those born since
            with contextlib.suppress(ProcessLookupError):  # ended by itself
                os.kill(pid, number)
        signalled |= alive
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def end(returncode: int) -> None:
    """Exit as the command did."""
    if returncode < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the core dump, if any, is the command's
        if -returncode in STOP:
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    sys.exit(returncode)


def main(grace: float, argv: list[str]) -> None:
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeup, child_ended = os.pipe()
    os.set_blocking(child_ended, False)
    signal.set_wakeup_fd(child_ended)
    for number in (signal.SIGCHLD, *STOP):
        signal.signal(number, lambda *_: None)  # a handler is needed for the wake-up to come
    try:
        command = subprocess.Popen(  # ended by the kernel, should the guard itself be killed
            argv, stdin=subprocess.DEVNULL, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        )
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
    while command.poll() is None:
        ready, _, _ = select.select([wakeup, sys.stdin.fileno()], [], [])
        received = os.read(wakeup, 4096) if wakeup in ready else b""
        closed = sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 4096)
        if closed or set(received) & set(STOP):
            signal_all(signal.SIGTERM, grace)
            break
    if not signal_all(signal.SIGKILL, KILL_WITHIN):
        sys.exit(f"cannot be killed: {sorted(descendants())}")
    end(command.wait())


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
