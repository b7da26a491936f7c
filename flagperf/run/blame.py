"""Which rank failed first, and how: read from the report of the ranks' launcher and from the ranks' logs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from flagperf.config.schema.platform import Failures
from flagperf.contract.perflog import PREFIX, parse

MOST_SAID = 300  # characters of an exception in a cause
LAST_LINES = 20  # shown of a failed rank

BY_PEERS = (1, -signal.SIGABRT)  # how a rank ends because another one did: an exception, or a watchdog aborts it
QUARTER = 900  # seconds


@dataclass(frozen=True)
class RankExit:
    """A rank that ended before the training did."""

    rank: int
    exit_status: int  # negative: that signal
    moment: int | None = None  # when, in whole seconds of a quarter of an hour by the host's clock; None: not known


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


def _rank_exit(found: Mapping[str, str | None], first_rank: int) -> RankExit:
    rank, local, minute = found.get("rank"), found.get("local_rank"), found.get("minute")
    number = first_rank + int(local or 0) if rank is None else int(rank)
    when = None if minute is None else moment(60 * int(minute) + int(found["second"] or 0))
    return RankExit(number, int(found["exit_status"] or 0), when)


def left_early(
    launcher_log: str, ranks: Sequence[int], finished: Collection[int], ended_well: bool, failures: Failures
) -> list[int]:
    """Ranks of one node that ended with exit code 0 before they had finished: their launcher takes that for success.

    Args:
        launcher_log: what the launcher printed.
        ranks: of the node.
        finished: those that logged FINISHED.
        ended_well: the launcher ended with exit code 0, so all of its ranks did.
        failures: how the launcher says which ranks failed, and which it stopped.
    """
    told = [match.groupdict() for match in re.finditer(failures.exits[0], launcher_log, re.MULTILINE)]
    failed = {int(one["rank"]): one.get("pid") for one in told}
    stopped = set(re.findall(failures.stopped, launcher_log)) if failures.stopped else set()
    if not ended_well and (not failed or stopped - set(failed.values())):
        return []  # torchrun stopped a rank without reporting it. We cannot tell which rank
    return [rank for rank in ranks if rank not in finished and rank not in failed]


def first_cause(exits: Sequence[RankExit], rank_log: Callable[[int], str], failures: Failures) -> RankExit | None:
    """The rank of a node that failed of itself, rather than because another one had; None where there is none.

    A launcher's own order may have whole seconds only. A rank that it stopped (SIGTERM), or that ended with a broken
    connection to its peers, followed another.
    """

    def followed(exit_: RankExit) -> bool:
        return exit_.exit_status == -signal.SIGTERM or (
            exit_.exit_status in BY_PEERS and has_followed(rank_log(exit_.rank), failures)
        )

    return next((exit_ for exit_ in exits if not followed(exit_)), None)


def moment(seconds: float) -> int:
    """The place of a time in its quarter of an hour: the same in every time zone, and launchers name none."""
    return int(seconds) % QUARTER


def seconds_ago(then: int, now: float) -> int:
    """How long ago a moment was, where that is a few minutes at most.

    Args:
        now: by the clock that the moment was read from, in seconds since the epoch.
    """
    return (moment(now) - then + QUARTER // 2) % QUARTER - QUARTER // 2


def has_followed(log: str, failures: Failures) -> bool:
    """Whether a log tells of peers that were gone."""
    return any(re.search(pattern, log) for pattern in failures.followed)


def cause(exit_status: int) -> str:
    """An exit status as text: "exit code 3", "signal SIGKILL"."""
    return f"exit code {exit_status}" if exit_status >= 0 else f"signal {signal_name(exit_status)}"


def signal_name(exit_status: int) -> str:
    """The signal that a negative exit status stands for: "SIGKILL"; its number where it has no name."""
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return str(-exit_status)


def raised(log: str) -> str | None:
    """The last exception that a log tells of: "RuntimeError: out of luck"; None where it tells of none.

    torch.distributed begins each line of a traceback with the rank.
    """
    pattern = r"^(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b(?:: .*)?)$"
    found = re.findall(pattern, log, re.MULTILINE)
    return found[-1][:MOST_SAID] if found else None


def refused(log: str) -> tuple[str, dict[str, str]] | None:
    """The problem and the details of the wrong configuration that a rank's log ends with; None where it does not."""
    found = list(re.finditer(r"^ConfigError: (.*)\n((?:  \w+: +.*\n(?:    .*\n)*)+)", log, re.MULTILINE))
    if not found:
        return None
    details = re.findall(r"^  (\w+): +(.*(?:\n    .*)*)", found[-1][2], re.MULTILINE)
    return found[-1][1], dict(details)


def behind(logs: Mapping[int, str]) -> int | None:
    """The rank whose last logged step is lower than that of every other rank; None where several are that far back."""
    steps = {}
    for rank, log in logs.items():
        events = [event for line in log.splitlines() if (event := parse(line))]
        steps[rank] = max((int(event.value.get("step", 0)) for event in events), default=0)
    lowest = [rank for rank, step in steps.items() if step == min(steps.values())]
    return lowest[0] if len(lowest) == 1 else None


def has_finished(log: str) -> bool:
    """Whether a rank logged FINISHED."""
    return any(event.event == "FINISHED" for line in log.splitlines() if (event := parse(line)))


def last_lines(log: str) -> tuple[str, ...]:
    """The end of a log, without PerfLog lines and empty ones."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and PREFIX not in line]
    return tuple(lines[-LAST_LINES:])
