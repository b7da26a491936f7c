"""The shell that repeats the monitors' commands on a node, and the samples in what it prints.

A sample is the lines between `@begin SOURCE EPOCH` and `@end STATUS`. The time is the node's own clock, the one that
the node's PerfLog lines carry too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from flagperf.command import Command

# Both return only when the source is of no use, so that `stream … || sample …` goes on to the next one.
#   stream SOURCE WORD...                                a command that prints marked samples for ever
#   sample SOURCE LAST PAUSE INTERVAL LIMIT WORD...      a command for one sample; the last source is never given up
# A sample of more than 1 MiB (2048 blocks) is cut off there, for a tool that goes mad must not fill a disk.
LOOP = r"""
stream() {
    source=$1; shift
    date "+@begin $source %s" # in case it fails before its first sample
    "$@"
    printf '\n@end %s\n' "$?"
    return 1
}
sample() {
    source=$1 last=$2 pause=$3 interval=$4 limit=$5; shift 5; good=
    trap 'kill "$child" 2>/dev/null; exit 0' TERM # timeout puts its command into a process group of its own
    while :; do
        date "+@begin $source %s"
        (ulimit -f 2048; exec timeout -k 1 "$limit" "$@") >"$output.sample" 2>&1 & child=$!
        wait "$child"; status=$?
        if [ "$status" -eq 0 ]; then cat "$output.sample"; else head -c 1000 "$output.sample"; fi
        printf '\n@end %s\n' "$status"
        [ "$status" -eq 0 ] && good=yes
        [ "$good$last" ] || return 1
        sleep "$pause" & child=$!
        wait "$child"; pause=$interval
    done
}
"""

Reader = Callable[[str], "list[str]"]  # output of a sample → lines to log; ValueError when it cannot be read


@dataclass(frozen=True)
class Source:
    """One way to get a monitor's figures."""

    name: str  # for messages
    command: Command  # prints one sample; with `streams`, prints marked samples for ever
    read: Reader
    interval: float  # seconds between two samples
    timeout: float = 10.0  # seconds a sample may take
    streams: bool = False


@dataclass(frozen=True)
class Monitor:
    """One kind of figure of a node, kept in one log file."""

    name: str  # cpu, mem, pwr, <vendor>
    sources: tuple[Source, ...]  # the first that works is used
    devices: bool = False  # one line a device and sample; else one figure a sample
    expected: bool = True  # False: many machines lack it, which is no warning

    @property
    def log(self) -> str:
        return f"{self.name}_monitor.log"

    def script(self, output: str) -> str:
        """Shell text that appends this monitor's samples to the file `output`."""
        tried = " || ".join(self._words(number) for number in range(len(self.sources)))
        path = Command((output,)).line()
        return f"( output={path}; {tried} ) >>{path} 2>&1 &"

    def _words(self, number: int) -> str:
        source = self.sources[number]
        if source.streams:
            return Command(("stream", str(number), *source.command.argv)).line()
        last = "last" if number == len(self.sources) - 1 else ""
        # The second sample comes soon, so that figures that are differences exist early.
        times = (min(1.0, source.interval), source.interval, source.timeout)
        words = ("sample", str(number), last, *(f"{seconds:g}" for seconds in times), *source.command.argv)
        return Command(words).line()


class Sample(NamedTuple):
    source: int  # index into Monitor.sources
    time: int  # seconds since the epoch
    status: int  # exit status; 124 or 137: it took too long
    text: str


@dataclass
class Samples:
    """Cuts samples out of output that arrives in pieces."""

    _rest: bytes = field(default=b"", repr=False)

    def feed(self, piece: bytes) -> Iterator[Sample]:
        """The samples that `piece` completes."""
        self._rest += piece
        *whole, self._rest = re.split(rb"(?<=\n)@end (?=\d+\n)", self._rest)
        for number, part in enumerate(whole):
            following = whole[number + 1] if number + 1 < len(whole) else self._rest
            if match := re.search(rb"(?:.*\n|^)@begin (\d+) (\d+)\n(.*)", part, re.DOTALL):
                status = int(following.split(b"\n", 1)[0])
                text = match[3].decode(errors="replace").strip("\n")
                yield Sample(int(match[1]), int(match[2]), status, text)


def script(monitors: dict[str, Monitor]) -> str:
    """The shell text of a node: output file → monitor."""
    return LOOP + "".join(monitor.script(output) + "\n" for output, monitor in monitors.items()) + "wait\n"
