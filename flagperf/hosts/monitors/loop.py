"""Makes the shell script that repeats the monitors' commands on a node, and splits its output into samples.

A sample is the text between `@begin SOURCE EPOCH` and `@end STATUS`. The time is that of the node's clock. The node's
PerfLog lines have the same clock.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from flagperf.contract.command import Command
from flagperf.contract.monitor_log import SUFFIX
from flagperf.hosts.shell import script

LOOP = script(__file__, "loop.sh")

# Output of a sample → lines of the log. Raises ValueError where the output cannot be read.
Reader = Callable[[str], "list[str]"]


@dataclass(frozen=True)
class Source:
    """One command that gives a monitor's figures."""

    name: str  # for messages
    command: Command  # prints one sample; with `streams`: prints marked samples until it is stopped
    read: Reader
    interval: float  # seconds between two samples
    timeout: float = 10.0  # longest time of a sample, in seconds
    streams: bool = False


@dataclass(frozen=True)
class Monitor:
    """One kind of figure of a node. It has one log file."""

    name: str  # one of NODE_FIGURES, or the vendor's name
    sources: tuple[Source, ...]  # the first source that works is used
    devices: bool = False  # True: a sample has one line for each device; False: one figure
    expected: bool = True  # False: many machines lack these figures, so their absence is no warning

    @property
    def log(self) -> str:
        """The name of the log file."""
        return self.name + SUFFIX

    def script(self, output: str) -> str:
        """Shell text that appends this monitor's samples to the file `output`."""
        attempts = " || ".join(self._try(number, output) for number in range(len(self.sources)))
        return f"( {attempts} ) >>{shlex.quote(output)} 2>&1 &"

    def _try(self, number: int, output: str) -> str:
        """One call of a function of loop.sh."""
        source = self.sources[number]
        if source.streams:
            return shlex.join(("stream", str(number), *source.command.argv))
        last = "last" if number == len(self.sources) - 1 else ""
        # The second sample comes early, because some figures are differences of two samples.
        times = (min(1.0, source.interval), source.interval, source.timeout)
        return shlex.join(
            ("sample", output, str(number), last, *(f"{seconds:g}" for seconds in times), *source.command.argv)
        )


class Sample(NamedTuple):
    """One output of a source."""

    source: int  # index into Monitor.sources
    time: int  # seconds since the epoch
    status: int  # exit status; 124 or 137: the command took too long
    text: str


@dataclass
class Samples:
    """Splits output that arrives in pieces into samples."""

    _rest: bytes = field(default=b"", repr=False)

    def feed(self, piece: bytes) -> Iterator[Sample]:
        """The samples that `piece` completes."""
        self._rest += piece
        *complete, self._rest = re.split(rb"(?<=\n)@end (?=\d+\n)", self._rest)
        for number, part in enumerate(complete):
            following = complete[number + 1] if number + 1 < len(complete) else self._rest
            if match := re.search(rb"(?:.*\n|^)@begin (\d+) (\d+)\n(.*)", part, re.DOTALL):
                status = int(following.split(b"\n", 1)[0])
                text = match[3].decode(errors="replace").strip("\n")
                yield Sample(int(match[1]), int(match[2]), status, text)


def node_script(monitors: dict[str, Monitor]) -> str:
    """Shell text that runs all monitors of a node. `monitors`: output file → monitor."""
    return LOOP + "".join(monitor.script(output) + "\n" for output, monitor in monitors.items()) + "wait\n"
