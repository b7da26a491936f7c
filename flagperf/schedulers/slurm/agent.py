"""Works on a node of Slurm for the launcher, as the only task of a job step.

Requests come on standard input, answers go to standard output: one line of JSON each, bytes in base64. An answer has
the number of its request, and may come after later answers. All started processes are stopped when standard input
closes, because the launcher stopped the agent or was killed, or when Slurm ends the step.

The file is sent to the node. So it uses the standard library only, imports nothing of flagperf, and needs Python 3.8.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

KILLED_AFTER = 1.0  # seconds for the end of a killed command


class Agent:
    """The requests of the launcher on this node: one method each."""

    def __init__(self, guard: str) -> None:
        self.guard = guard  # text of flagperf/hosts/guard.py, which ends all descendants of a long command
        self.started: dict[int, subprocess.Popen[bytes]] = {}
        self.running: set[subprocess.Popen[bytes]] = set()
        self.streams: dict[int, socket.socket] = {}

    def hello(self) -> dict[str, object]:
        """The address of this node for other nodes: the local address of a route to the launcher."""
        launcher = os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "")
        try:
            family = socket.getaddrinfo(launcher, 9, type=socket.SOCK_DGRAM)[0][0]
            with socket.socket(family, socket.SOCK_DGRAM) as end:
                end.connect((launcher, 9))  # this sends nothing
                return {"address": end.getsockname()[0]}
        except OSError:
            return {"address": ""}

    def clock(self) -> dict[str, object]:
        """The time of this node, in seconds since the epoch."""
        return {"time": time.time()}

    def run(
        self, argv: list[str], env: dict[str, str], cwd: str | None, timeout: float, stdin: str
    ) -> dict[str, object]:
        """Run a short command to its end."""
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env={**os.environ, **env}, start_new_session=True
            )
        except OSError as error:  # no such program: answered as a shell does
            return {"status": 127, "stdout": "", "stderr": encoded(f"{argv[0]}: {error.strerror}".encode())}
        self.running.add(process)
        try:
            stdout, stderr = process.communicate(base64.b64decode(stdin), timeout)
        except subprocess.TimeoutExpired:
            kill(process)
            return {"late": True}
        finally:
            self.running.discard(process)
        return {"status": process.returncode, "stdout": encoded(stdout), "stderr": encoded(stderr)}

    def start(
        self, number: int, argv: list[str], env: dict[str, str], cwd: str | None, log: str, grace: float
    ) -> dict[str, object]:
        """Start a long command under the guard."""
        with Path(log).open("ab") as output:
            self.started[number] = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", self.guard, str(grace), *argv],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env={**os.environ, **env},
                start_new_session=True,
            )
        return {}

    def wait(self, number: int) -> dict[str, object]:
        """Wait for the end of a long command."""
        return {"status": self.started[number].wait()}

    def stop(self, number: int) -> dict[str, object]:
        """Stop a long command."""
        process = self.started[number]
        if process.stdin:
            process.stdin.close()  # tells the guard to stop all processes
        return {"status": process.wait()}

    def read(self, path: str, offset: int, size: int) -> dict[str, object]:
        """A piece of a file; empty where the path is missing or no regular file."""
        if Path(path).is_symlink() or not Path(path).is_file():
            return {"data": ""}
        try:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return {"data": encoded(file.read(size))}
        except FileNotFoundError:
            return {"data": ""}

    def write(self, path: str, offset: int, data: str, mode: int) -> dict[str, object]:
        """Write a piece of a file. The first piece creates a new file."""
        if not offset:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(base64.b64decode(data))
        Path(path).chmod(mode)
        return {}

    def kind(self, path: str) -> dict[str, object]:
        """Whether a path is a regular file, and no link to one."""
        return {"regular": Path(path).is_file() and not Path(path).is_symlink()}

    def walk(self, path: str, deepest: int) -> dict[str, object]:
        """What lies below a folder, by paths in it: `files` with their bytes, and `folders`.

        Not followed are `special` files (links, pipes, sockets, devices), `unreadable` ones, and folders that are too
        `deep`.
        """
        if not os.path.lexists(path):
            return {"absent": True}
        files: dict[str, int] = {}
        lists: dict[str, list[str]] = {"folders": [], "special": [], "unreadable": [], "deep": []}
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(Path(path, folder)) as entries:
                    found = list(entries)
            except OSError:
                lists["unreadable"].append(folder)
                continue
            for entry in found:
                below = f"{folder}/{entry.name}".lstrip("/")
                try:
                    about = entry.stat(follow_symlinks=False)
                except OSError:  # removed meanwhile, or in a folder without the right to enter it
                    lists["unreadable"].append(below)
                    continue
                if stat.S_ISREG(about.st_mode):
                    files[below] = about.st_size
                elif not stat.S_ISDIR(about.st_mode):
                    lists["special"].append(below)
                elif below.count("/") >= deepest:
                    lists["deep"].append(below)
                else:
                    lists["folders"].append(below)
                    waiting.append(below)
        return {"files": dict(sorted(files.items())), **{kind: sorted(paths) for kind, paths in lists.items()}}

    def make(self, folders: list[str]) -> dict[str, object]:
        """Make folders."""
        for folder in folders:
            Path(folder).mkdir(parents=True, exist_ok=True)
        return {}

    def connect(self, number: int, path: str) -> dict[str, object]:
        """Open a stream to a unix socket of this node."""
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.connect(path)
        except OSError:
            stream.close()
            raise
        self.streams[number] = stream
        return {}

    def receive(self, number: int, size: int) -> dict[str, object]:
        """Wait for the next data of a stream; empty at its end."""
        return {"data": encoded(self.streams[number].recv(size))}

    def send(self, number: int, data: str) -> dict[str, object]:
        """Send data on a stream. Empty data ends this direction of the stream."""
        if data:
            self.streams[number].sendall(base64.b64decode(data))
        else:
            self.streams[number].shutdown(socket.SHUT_WR)
        return {}

    def close(self, number: int) -> dict[str, object]:
        """Close a stream. A waiting `receive` ends, too."""
        stream = self.streams.pop(number, None)
        if stream is not None:
            with contextlib.suppress(OSError), stream:  # the other side may have ended it
                stream.shutdown(socket.SHUT_RDWR)
        return {}

    def end(self) -> None:
        """Stop all running commands."""
        for process in list(self.running):
            kill(process)
        for process in self.started.values():
            if process.stdin:
                process.stdin.close()
        for process in self.started.values():
            process.wait()


def encoded(data: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(data).decode()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a short command with its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(KILLED_AFTER)
    except (OSError, subprocess.TimeoutExpired):
        pass  # the command has ended, or is in uninterruptible sleep


def main() -> None:
    """Answer requests until standard input closes."""
    lock = threading.Lock()
    setup = json.loads(sys.stdin.readline())
    agent = Agent(setup["guard"])

    def answer(number: int, do: str, arguments: dict[str, object]) -> None:
        try:
            result = getattr(agent, do)(**arguments)
        except OSError as error:
            result = {"error": f"{error.strerror}: {error.filename}"}
        except Exception as error:  # a bug, reported by the launcher
            result = {"error": f"{type(error).__name__}: {error}"}
        with lock, contextlib.suppress(OSError):  # the launcher has ended: standard input ends too
            print(json.dumps({"number": number, **result}), flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        for line in sys.stdin:
            request = json.loads(line)
            arguments = (request["number"], request["do"], request["with"])
            threading.Thread(target=answer, args=arguments, daemon=True).start()
    finally:
        agent.end()


if __name__ == "__main__":
    main()
