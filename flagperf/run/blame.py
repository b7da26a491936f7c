"""Which rank failed first, and how: read from torchrun's report and the ranks' logs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flagperf.perflog import PREFIX, parse

LAST_LINES = 20  # shown of a failed rank

# torchrun's summary, printed when it ends: "rank      : 1 (local_rank: 1)", then "exitcode  : -9 (pid: 4711) (SIGKILL)"
SUMMARY = re.compile(r"^ *rank +: (\d+) \(local_rank: \d+\)\n *exitcode +: (-?\d+) ", re.MULTILINE)
ROOT_CAUSE = "Root Cause (first observed failure):"
# torchrun's one line, printed as soon as it sees a rank fail
NOTICE = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) ")
# how a rank ends because another one did: gloo, torch's store, NCCL
FOLLOWED = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|recvValue failed|Failed to recv"
    r"|remote process exited|NCCL communicator was aborted|DistNetworkError|DistBackendError"
)


@dataclass(frozen=True)
class RankExit:
    """A rank that ended with a failure."""

    rank: int
    exit_status: int  # negative: that signal


def rank_exits(launcher_log: str, first_rank: int) -> list[RankExit]:
    """Failed ranks of one node, the one torchrun saw first in front.

    Args:
        launcher_log: what torchrun printed.
        first_rank: global rank of the node's local rank 0.
    """
    others, _, root = launcher_log.partition(ROOT_CAUSE)
    found = [RankExit(int(rank), int(status)) for text in (root, others) for rank, status in SUMMARY.findall(text)]
    if not found:
        found = [RankExit(first_rank + int(local), int(status)) for status, local in NOTICE.findall(launcher_log)]
    return found


def first_cause(exits: Sequence[RankExit], rank_log: Callable[[int], str]) -> RankExit | None:
    """The rank that failed of itself, rather than because another one had; None where it is not among the exits.

    torchrun's own order has whole seconds only. A rank that it stopped (SIGTERM), or that ended with a broken
    connection to its peers, followed another. A rank that is the only one counts as the first in any case.
    """

    def followed(exit_: RankExit) -> bool:
        return exit_.exit_status == -signal.SIGTERM or (
            exit_.exit_status == 1 and bool(FOLLOWED.search(rank_log(exit_.rank)))
        )

    return next((exit_ for exit_ in exits if len(exits) == 1 or not followed(exit_)), None)


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
