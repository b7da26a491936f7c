"""Which rank failed first, and how: read from torchrun's report and the ranks' logs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from flagperf.perflog import PREFIX, parse

LAST_LINES = 20  # shown of a failed rank

# torchrun's summary, printed when it ends: "time      : 2026-11-21_07:20:01", "host      : h1",
# "rank      : 1 (local_rank: 1)", "exitcode  : -9 (pid: 4711) (SIGKILL)"
SUMMARY = re.compile(
    r"^ *time +: \S+_\d\d:(?P<minute>\d\d):(?P<second>\d\d)\n.*\n"
    r" *rank +: (?P<rank>\d+) \(local_rank: \d+\)\n *exitcode +: (?P<status>-?\d+) \(pid: (?P<pid>\d+)\)",
    re.MULTILINE,
)
ROOT_CAUSE = "Root Cause (first observed failure):"
# torchrun's one line, printed when a rank has failed and the others of the node were stopped
NOTICE = re.compile(r"failed \(exitcode: (?P<status>-?\d+)\) local_rank: (?P<local>\d+) ")
STOPPED = re.compile(r"Sending process (\d+) closing signal")  # torchrun's line for each rank that it stops
# how a rank ends because another one did: gloo, torch's store, NCCL
FOLLOWED = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|recvValue failed|Failed to recv"
    r"|remote process exited|NCCL communicator was aborted|DistNetworkError|DistBackendError"
)
BY_PEERS = (1, -signal.SIGABRT)  # how it ends then: an exception, or NCCL's watchdog aborts it
QUARTER = 900  # seconds


@dataclass(frozen=True)
class RankExit:
    """A rank that ended before the training did."""

    rank: int
    exit_status: int  # negative: that signal
    moment: int | None = None  # when, in whole seconds of a quarter of an hour by the host's clock; None: not known


def rank_exits(launcher_log: str, first_rank: int) -> list[RankExit]:
    """Failed ranks of one node, the one torchrun saw first in front.

    Args:
        launcher_log: what torchrun printed.
        first_rank: global rank of the node's local rank 0.
    """
    others, _, root = launcher_log.partition(ROOT_CAUSE)
    found = [
        RankExit(int(one["rank"]), int(one["status"]), moment(60 * int(one["minute"]) + int(one["second"])))
        for text in (root, others)
        for one in SUMMARY.finditer(text)
    ]
    if not found:
        notices = NOTICE.finditer(launcher_log)
        found = [RankExit(first_rank + int(one["local"]), int(one["status"])) for one in notices]
    return found


def left_early(launcher_log: str, ranks: Sequence[int], finished: Collection[int], ended_well: bool) -> list[int]:
    """Ranks of one node that ended with exit code 0 before they had finished: torchrun takes that for success.

    Args:
        launcher_log: what torchrun printed.
        ranks: of the node.
        finished: those that logged FINISHED.
        ended_well: torchrun ended with exit code 0, so all of its ranks did.
    """
    failed = {int(one["rank"]): one["pid"] for one in SUMMARY.finditer(launcher_log)}
    if not ended_well and (not failed or set(STOPPED.findall(launcher_log)) - set(failed.values())):
        return []  # some rank was stopped of which torchrun does not say how it ended: any of them may be that one
    return [rank for rank in ranks if rank not in finished and rank not in failed]


def first_cause(exits: Sequence[RankExit], rank_log: Callable[[int], str]) -> RankExit | None:
    """The rank of a node that failed of itself, rather than because another one had; None where there is none.

    torchrun's own order has whole seconds only. A rank that it stopped (SIGTERM), or that ended with a broken
    connection to its peers, followed another.
    """

    def followed(exit_: RankExit) -> bool:
        return exit_.exit_status == -signal.SIGTERM or (
            exit_.exit_status in BY_PEERS and bool(FOLLOWED.search(rank_log(exit_.rank)))
        )

    return next((exit_ for exit_ in exits if not followed(exit_)), None)


def moment(seconds: float) -> int:
    """The place of a time in its quarter of an hour: the same in every time zone, and torchrun names none."""
    return int(seconds) % QUARTER


def seconds_ago(then: int, now: float) -> int:
    """How long ago a moment was, where that is a few minutes at most.

    Args:
        now: by the clock that the moment was read from, in seconds since the epoch.
    """
    return (moment(now) - then + QUARTER // 2) % QUARTER - QUARTER // 2


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


def has_finished(log: str) -> bool:
    """Whether a rank logged FINISHED."""
    return any(event.event == "FINISHED" for line in log.splitlines() if (event := parse(line)))


def last_lines(log: str) -> tuple[str, ...]:
    """The end of a log, without PerfLog lines and empty ones."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and PREFIX not in line]
    return tuple(lines[-LAST_LINES:])
