"""Which rank failed first, and how: read from the report of the ranks' launcher and from the ranks' logs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flagperf.config.platform import Failures
from flagperf.perflog import PREFIX, parse

LAST_LINES = 20  # shown of a failed rank


@dataclass(frozen=True)
class RankExit:
    """A rank that ended with a failure."""

    rank: int
    exit_status: int  # negative: that signal


def rank_exits(launcher_log: str, first_rank: int, failures: Failures) -> list[RankExit]:
    """Failed ranks of one node, the one that the launcher of the ranks saw first in front.

    Args:
        launcher_log: what the launcher printed.
        first_rank: global rank of the node's local rank 0.
        failures: how the launcher says it.
    """
    others, first = launcher_log, ""
    if failures.first:
        others, _, first = launcher_log.partition(failures.first)
    for pattern in failures.exits:
        found = [match for text in (first, others) for match in re.finditer(pattern, text, re.MULTILINE)]
        if found:
            return [_rank_exit(match.groupdict(), first_rank) for match in found]
    return []


def _rank_exit(found: Mapping[str, str], first_rank: int) -> RankExit:
    rank = int(found["rank"]) if "rank" in found else first_rank + int(found["local_rank"])
    return RankExit(rank, int(found["exit_status"]))


def first_cause(exits: Sequence[RankExit], rank_log: Callable[[int], str], failures: Failures) -> RankExit | None:
    """The rank that failed of itself, rather than because another one had; None where it is not among the exits.

    A launcher's own order may have whole seconds only. A rank that its launcher stopped (SIGTERM), or that ended with a
    broken connection to its peers, followed another. A rank that is the only one counts as the first in any case.
    """

    def followed(exit_: RankExit) -> bool:
        return exit_.exit_status == -signal.SIGTERM or (
            exit_.exit_status == 1 and _says(rank_log(exit_.rank), failures.followed)
        )

    return next((exit_ for exit_ in exits if len(exits) == 1 or not followed(exit_)), None)


def _says(log: str, patterns: Iterable[str]) -> bool:
    return any(re.search(pattern, log) for pattern in patterns)


def cause(exit_status: int) -> str:
    """An exit status as text: "exit code 3", "signal SIGKILL"."""
    return f"exit code {exit_status}" if exit_status >= 0 else f"signal {signal_name(exit_status)}"


def signal_name(exit_status: int) -> str:
    """The signal that a negative exit status stands for: "SIGKILL"; its number where it has no name."""
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return str(-exit_status)


def behind(logs: Mapping[int, str]) -> int | None:
    """The rank whose last logged step is lower than that of every other rank; None where several are that far back."""
    steps = {}
    for rank, log in logs.items():
        events = [event for line in log.splitlines() if (event := parse(line))]
        steps[rank] = max((int(event.value.get("step", 0)) for event in events), default=0)
    lowest = [rank for rank, step in steps.items() if step == min(steps.values())]
    return lowest[0] if len(lowest) == 1 else None


def last_lines(log: str) -> tuple[str, ...]:
    """The end of a log, without PerfLog lines and empty ones."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and PREFIX not in line]
    return tuple(lines[-LAST_LINES:])
