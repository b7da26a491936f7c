"""A user's sink in a process of its own, which gets copies of the events and no part of the training.

In the rank it could change the logged loss or the time of a step. Its output goes to a log of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from flagperf.contract.components import make_writer
from flagperf.contract.perflog import Event, parse
from flagperf.errors import ConfigError, FlagperfError
from flagperf.trainer.start import uncached

MADE = "made\n"  # the answer of a process that has made its sink
PIPE = 1 << 20  # bytes of events that a sink may be behind
PIPE_SIZE = 1031  # F_SETPIPE_SZ, which the module fcntl knows since Python 3.10
END = 60.0  # seconds that a sink may take for the last events


class SinkProcess:
    """The end in the rank: a sink that hands each event on."""

    def __init__(self, key: str, node: Any, folder: Path) -> None:
        """Start the process and wait until it has made the sink.

        Args:
            key, node: of the entry in the setting `sinks`.
            folder: where the sink writes, and its process logs.

        Raises:
            ConfigError: the entry names no sink, or the sink cannot be made.
        """
        self.key, self.log = key, folder / f"{key.replace('[', '').rstrip(']')}.out.log"
        reading_end, writing_end = os.pipe()
        command = [sys.executable, uncached.__file__, __name__, key, json.dumps(node), str(folder), str(writing_end)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, bufsize=0, pass_fds=[writing_end]
            )
        os.close(writing_end)
        with os.fdopen(reading_end, encoding="utf-8") as answers:
            answer = answers.readline()
        assert self.process.stdin is not None
        self.events = self.process.stdin
        if answer != MADE:
            self.events.close()
            self.process.wait()
            raise ConfigError(**json.loads(answer)) if answer else self._ended()
        with contextlib.suppress(OSError):  # a user may have only so many bytes of pipes
            fcntl.fcntl(self.events, PIPE_SIZE, PIPE)

    def write(self, event: Event) -> None:
        """Hand an event on. Raises FlagperfError where the process has ended."""
        data = f"{event.line()}\n".encode(errors="backslashreplace")
        try:
            while data:
                data = data[self.events.write(data) :]
        except BrokenPipeError:
            raise self._ended() from None

    def close(self) -> None:
        """Wait until the sink has all events. Raises FlagperfError where it failed, or takes longer than END."""
        try:
            with contextlib.suppress(BrokenPipeError):
                self.events.write(b"\n")  # processes of the training may have the pipe, too: it has no end by itself
            if self.process.wait(END) != 0:
                raise self._ended()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise FlagperfError(f"{self.key}: the sink is not done {END:g} s after the training") from None
        finally:
            self.events.close()

    def _ended(self) -> FlagperfError:
        lines = self.log.read_text("utf-8", "replace").splitlines() or ["it printed nothing"]
        return FlagperfError(f"{self.key}: the process of the sink has ended ({self.log.name}): {lines[-1]}")


def main(key: str, node: str, folder: str, answer_fd: str) -> None:
    """The end in the process: make the sink, answer, and hand each event of standard input to the sink.

    Args:
        key, node, folder: as SinkProcess takes them; `node` as JSON.
        answer_fd: open file that takes MADE, or the fields of a ConfigError as JSON.
    """
    with os.fdopen(int(answer_fd), "w", encoding="utf-8") as answer:
        try:
            sink = make_writer(key, json.loads(node), "sink", "docs/perflog.md", Path(folder))
        except ConfigError as error:
            names = ("problem", "where", "key", "given", "allowed", "advice")
            answer.write(json.dumps({name: getattr(error, name) for name in names}, default=str))
            return
        answer.write(MADE)
    for line in sys.stdin:
        if line == "\n":
            return
        if event := parse(line):
            sink.write(event)


if __name__ == "__main__":
    main(*sys.argv[1:])
