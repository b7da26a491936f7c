"""Runs one command, and ends all of its processes even after the death of the program that started the guard.

    python -I -S guard.py GRACE COMMAND...

Standard input closes when the launcher stops the guard, dies, or loses its connection. Then, or after a signal that
asks the guard to end, every descendant gets SIGTERM, and SIGKILL after GRACE seconds. When the command ends by itself,
the guard kills its remaining descendants at once. The guard ends like the command: with the same exit status or signal.

The file runs alone on a host. So it uses the standard library only, and imports nothing of flagperf. Linux only: as
"child subreaper" the guard inherits orphans, so ranks in their own sessions stay its descendants.
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
STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # have the same effect as the end of standard input
KILL_WITHIN = 5.0  # seconds; the guard does not wait longer for a process in uninterruptible sleep


def descendants() -> set[int]:
    """Process ids of all living descendants of this process."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # the process has ended
        if state != "Z":
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    result: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        result.update(below)
        waiting.extend(below)
    return result


def signal_all(number: int, seconds: float) -> bool:
    """Send a signal to every descendant, and wait at most `seconds` for their end. Returns whether all have ended."""
    signalled: set[int] = set()
    deadline = time.monotonic() + seconds
    while alive := descendants():
        for pid in alive - signalled:  # including descendants that started later
            with contextlib.suppress(ProcessLookupError):  # the process has ended
                os.kill(pid, number)
        signalled |= alive
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def reap(command: int) -> None:
    """Take the exit statuses of orphans that have ended, so that none stays as a zombie; not that of the command."""
    with contextlib.suppress(ChildProcessError):  # no child is left
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == command:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def end(returncode: int) -> None:
    """End this process like the command: with its exit status or by its signal."""
    if returncode < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no second core dump
        if -returncode in STOP:
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    sys.exit(returncode)


def main(grace: float, argv: list[str]) -> None:
    """Run the command, and end all of its processes. `grace`: seconds between SIGTERM and SIGKILL."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeup, child_ended = os.pipe()
    os.set_blocking(child_ended, False)
    signal.set_wakeup_fd(child_ended)
    for number in (signal.SIGCHLD, *STOP):
        signal.signal(number, lambda *_: None)  # without a handler there is no wake-up
    try:
        command = subprocess.Popen(  # the kernel ends the command when the guard is killed
            argv, stdin=subprocess.DEVNULL, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        )
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
    while command.poll() is None:
        reap(command.pid)
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
