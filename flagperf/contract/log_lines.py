"""Splits a log into lines. The log may hold anything: a line may have no end."""

from __future__ import annotations

LONGEST = 1 << 20  # bytes of a line that is read; the longest of PerfLog, SUBMIT_INFO, has some 20,000


class Lines:
    """Splits bytes, as they come, into complete lines. A line that is longer than LONGEST is dropped, and counted."""

    def __init__(self) -> None:
        self.dropped = 0
        self._torn = b""  # the last line, while its end is not there yet
        self._too_long = False  # whether the last line is too long; nothing of it is kept

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete, without their ends."""
        *ended, self._torn = (self._torn + data).split(b"\n")
        complete = []
        for line in ended:
            if self._too_long or len(line) > LONGEST:
                self.dropped += 1
            else:
                complete.append(line)
            self._too_long = False
        if self._too_long or len(self._torn) > LONGEST:
            self._torn, self._too_long = b"", True
        return complete

    def end(self) -> list[bytes]:
        """The last line, where the log ended without a line end."""
        return self.feed(b"\n") if self._torn or self._too_long else []
