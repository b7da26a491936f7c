"""The logs of a round's ranks: round<N>/<host>_noderank<M>/rank<R>.out.log → events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flagperf.contract.log_lines import LONGEST, Lines
from flagperf.contract.perflog import PREFIX, Event, parse
from flagperf.contract.sys_info import clock_offset

_MARK = PREFIX.encode()
_NODE = re.compile(r"(?P<host>.+)_noderank(?P<rank>\d+)")
_RANK = re.compile(r"rank(?P<rank>\d+)\.out\.log")


@dataclass(frozen=True)
class RankLog:
    """PerfLog of a rank, in the order of its lines. Its times are those of the launcher's clock."""

    rank: int
    host: str
    node_rank: int
    events: tuple[Event, ...]
    unread: int = 0  # PerfLog lines that could not be read, and lines that are too long

    def all(self, event: str) -> tuple[Event, ...]:
        """All events of this name."""
        return tuple(entry for entry in self.events if entry.event == event)

    @property
    def finished(self) -> Mapping[str, Any] | None:
        """Value of FINISHED; None where the rank did not finish."""
        events = self.all("FINISHED")
        return events[-1].value if events else None


def node_folders(round_folder: Path) -> tuple[tuple[str, int, Path], ...]:
    """Host, node rank and folder of every node of a round, by node rank."""
    matches = [(match, path) for path in round_folder.glob("*_noderank*") if (match := _NODE.fullmatch(path.name))]
    nodes = [(match["host"], int(match["rank"]), path) for match, path in matches]
    return tuple(sorted(nodes, key=lambda node: node[1]))


def read_rank_logs(round_folder: Path) -> tuple[RankLog, ...]:
    """Every rank log of a round, by rank. Lines that are no PerfLog are left out."""
    return tuple(_read(*log_file) for log_file in find_logs(round_folder))


def first_rank_log(round_folder: Path) -> RankLog | None:
    """The log of the lowest rank that has one; None where no rank has."""
    log_files = find_logs(round_folder)
    return _read(*log_files[0]) if log_files else None


def find_logs(round_folder: Path) -> list[tuple[int, str, int, Path]]:
    """Rank, host, node rank and path of every rank log, by rank."""
    logs = [
        (int(match["rank"]), host, node_rank, path)
        for host, node_rank, folder in node_folders(round_folder)
        for path in folder.glob("rank*.out.log")
        if (match := _RANK.fullmatch(path.name)) and path.is_file()
    ]
    return sorted(logs, key=lambda log: log[0])


def _read(rank: int, host: str, node_rank: int, path: Path) -> RankLog:
    lines, events, unread = Lines(), [], 0
    ahead = round(1000 * clock_offset(path.parent))  # ms
    for line in _all_lines(path, lines):
        if _MARK not in line:
            continue
        if (event := parse(line.decode(errors="replace"))) is not None:
            events.append(replace(event, time_ms=event.time_ms - ahead) if ahead else event)
        else:
            unread += 1
    return RankLog(rank, host, node_rank, tuple(events), unread + lines.dropped)


def _all_lines(path: Path, lines: Lines) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(LONGEST):
            yield from lines.feed(data)
    yield from lines.end()
