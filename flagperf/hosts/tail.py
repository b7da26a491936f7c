"""Reads a growing log of a host."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from flagperf.contract.log_lines import Lines
from flagperf.contract.perflog import Event, parse
from flagperf.hosts.transport import Transport
from flagperf.secret import Mask, Masked

MOST_COPIED = 1 << 29  # bytes of a copy; at the end the whole log is brought, within the limits of `bring`
READS = 16  # most reads for one call: other ranks and deadlines must not wait for a long log


class Tail:
    """Reads the complete lines of a growing log once. Optionally copies the log, without secrets, to a file."""

    def __init__(self, transport: Transport, path: str, copy: Path | None = None, mask: Mask | None = None) -> None:
        self.transport, self.path, self.copy = transport, path, copy
        self._masked = Masked(mask or Mask())
        self._offset = 0
        self._lines = Lines()

    async def lines(self) -> list[str]:
        """The lines that were completed since the last call, from at most READS reads."""
        complete: list[bytes] = []
        for _ in range(READS):
            if not (data := await self.transport.read(self.path, self._offset)):
                break
            self._offset += len(data)
            if self.copy is not None and self._offset <= MOST_COPIED:
                with self.copy.open("ab") as file:
                    file.write(self._masked.feed(data))
            complete += self._lines.feed(data)
        return [line.decode(errors="replace") for line in complete]

    async def events(self, names: Collection[str] = ()) -> list[Event]:
        """PerfLog events among the new lines. `names`: of the events; empty: all."""
        marks = [f'"{name}"' for name in names]
        lines = [line for line in await self.lines() if not marks or any(mark in line for mark in marks)]
        return [event for line in lines if (event := parse(line))]
