"""Does on a node of Slurm what the launcher asks, as the one task of a job step.

Requests come on standard input, answers go to standard output: one line of JSON each, bytes in base64. An answer bears
the number of its request, and comes when it is ready. When standard input closes, because the launcher stopped it or
was killed, or when Slurm ends the step, whatever was started is stopped.

Only the standard library, and no import of flagperf: the file is sent to the node. Python 3.8 or newer.
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

KILLED_AFTER = 1.0  # seconds that a command which was killed may take to end


class Agent:
    """What runs on this node for the launcher."""

    def __init__(self, guard: str) -> None:
        self.guard = guard  # flagperf/hosts/guard.py, as text: it ends all descendants of a long command
        self.started: dict[int, subprocess.Popen[bytes]] = {}
        self.running: set[subprocess.Popen[bytes]] = set()
        self.streams: dict[int, socket.socket] = {}

    def hello(self) -> dict[str, object]:
        """Where the other nodes reach this one: the address from which a way leads to the launcher."""
        launcher = os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "")
        try:
            family = socket.getaddrinfo(launcher, 9, type=socket.SOCK_DGRAM)[0][0]
            with socket.socket(family, socket.SOCK_DGRAM) as end:
                end.connect((launcher, 9))  # nothing is sent for it
                return {"address": end.getsockname()[0]}
        except OSError:
            return {"address": ""}

    def clock(self) -> dict[str, object]:
        return {"time": time.time()}

    def run(
        self, argv: list[str], env: dict[str, str], cwd: str | None, timeout: float, stdin: str
    ) -> dict[str, object]:
        """A short command, to its end."""
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
        """A long command, under the guard."""
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
        return {"status": self.started[number].wait()}

    def stop(self, number: int) -> dict[str, object]:
        process = self.started[number]
        if process.stdin:
            process.stdin.close()  # the guard's sign to stop everything
        return {"status": process.wait()}

    def read(self, path: str, offset: int, size: int) -> dict[str, object]:
        """A piece of a file; nothing while there is no such file, and where something else lies in its place."""
        if Path(path).is_symlink() or not Path(path).is_file():
            return {"data": ""}
        try:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return {"data": encoded(file.read(size))}
        except FileNotFoundError:
            return {"data": ""}

    def write(self, path: str, offset: int, data: str, mode: int) -> dict[str, object]:
        """A piece of a file, the first of which makes it anew."""
        if not offset:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(base64.b64decode(data))
        Path(path).chmod(mode)
        return {}

    def walk(self, path: str) -> dict[str, object]:
        """The files below a folder, by their paths in it, with their modes; of a file that alone, by the empty path.

        `left`: what is neither a file nor a folder, but a link, a pipe, a socket or a device.
        """
        top = Path(path)
        if not os.path.lexists(path):
            return {"absent": True}
        found: dict[str, int] = {"": top.lstat().st_mode}
        if stat.S_ISDIR(found[""]):
            found.update({str(one.relative_to(top)): one.lstat().st_mode for one in sorted(top.rglob("*"))})
        files = {name: mode & 0o777 for name, mode in found.items() if stat.S_ISREG(mode)}
        folders = [name for name, mode in found.items() if stat.S_ISDIR(mode)]
        return {"files": files, "folders": folders, "left": [name for name in found if name not in {*files, *folders}]}

    def make(self, folders: list[str]) -> dict[str, object]:
        for folder in folders:
            Path(folder).mkdir(parents=True, exist_ok=True)
        return {}

    def connect(self, number: int, path: str) -> dict[str, object]:
        """A stream to a unix socket of this node."""
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.connect(path)
        except OSError:
            stream.close()
            raise
        self.streams[number] = stream
        return {}

    def receive(self, number: int, size: int) -> dict[str, object]:
        """What comes next on a stream, once it comes; nothing at its end."""
        return {"data": encoded(self.streams[number].recv(size))}

    def send(self, number: int, data: str) -> dict[str, object]:
        """What goes next on a stream; nothing ends it, while answers still come."""
        if data:
            self.streams[number].sendall(base64.b64decode(data))
        else:
            self.streams[number].shutdown(socket.SHUT_WR)
        return {}

    def close(self, number: int) -> dict[str, object]:
        """The end of a stream, also for who waits for what comes next."""
        stream = self.streams.pop(number, None)
        if stream is not None:
            with contextlib.suppress(OSError), stream:  # the other side may have ended it
                stream.shutdown(socket.SHUT_RDWR)
        return {}

    def end(self) -> None:
        """Stop what still runs."""
        for process in list(self.running):
            kill(process)
        for process in self.started.values():
            if process.stdin:
                process.stdin.close()
        for process in self.started.values():
            process.wait()


def encoded(data: bytes) -> str:
    """Bytes as they travel within a line, both ways."""
    return base64.b64encode(data).decode()


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a short command, and what it started in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(KILLED_AFTER)
    except (OSError, subprocess.TimeoutExpired):
        pass  # it has ended, or the kernel holds it


def main() -> None:
    lock = threading.Lock()
    setup = json.loads(sys.stdin.readline())
    agent = Agent(setup["guard"])

    def answer(number: int, do: str, arguments: dict[str, object]) -> None:
        try:
            found = getattr(agent, do)(**arguments)
        except OSError as error:
            found = {"error": f"{error.strerror}: {error.filename}"}
        except Exception as error:  # a bug, which the launcher is to tell
            found = {"error": f"{type(error).__name__}: {error}"}
        with lock, contextlib.suppress(OSError):  # the launcher is gone: standard input ends too
            print(json.dumps({"number": number, **found}), flush=True)

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
