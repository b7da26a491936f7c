"""Which rank failed first, and how: read from the report of the ranks' launcher and from the ranks' logs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from flagperf.config.schema.platform import Failures
from flagperf.contract.perflog import PREFIX, parse

MOST_CHARACTERS = 300  # characters of an exception in a cause
LAST_LINES = 20  # lines of a failed rank that a failure has

BY_PEERS = (1, -signal.SIGABRT)  # exit statuses of a rank whose peer ended: an exception, or an abort by a watchdog
QUARTER = 900  # seconds


@dataclass(frozen=True)
class RankExit:
    """A rank that ended before the training did."""

    rank: int
    exit_status: int  # negative: that signal
    moment: int | None = None  # of the end, see `moment`; None: unknown


def rank_exits(launcher_log: str, first_rank: int, failures: Failures) -> list[RankExit]:
    """Failed ranks of one node, first the rank whose end the launcher of the ranks saw first.

    Args:
        launcher_log: the output of the launcher.
        first_rank: global rank of the node's local rank 0.
        failures: the patterns of the launcher's reports.
    """
    other_lines, first_failure = launcher_log, ""
    if failures.first:
        other_lines, _, first_failure = launcher_log.partition(failures.first)
    for pattern in failures.exits:
        matches = [match for text in (first_failure, other_lines) for match in re.finditer(pattern, text, re.MULTILINE)]
        if matches:
            return [_rank_exit(match.groupdict(), first_rank) for match in matches]
    return []


def _rank_exit(groups: Mapping[str, str | None], first_rank: int) -> RankExit:
    rank, local, minute = groups.get("rank"), groups.get("local_rank"), groups.get("minute")
    number = first_rank + int(local or 0) if rank is None else int(rank)
    exit_moment = None if minute is None else moment(60 * int(minute) + int(groups["second"] or 0))
    return RankExit(number, int(groups["exit_status"] or 0), exit_moment)


def early_exits(
    launcher_log: str, ranks: Sequence[int], finished: Collection[int], ended_well: bool, failures: Failures
) -> list[int]:
    """Ranks of one node that ended with exit code 0 before FINISHED. Their launcher takes this for success.

    Args:
        launcher_log: the output of the launcher.
        ranks: of the node.
        finished: the ranks that logged FINISHED.
        ended_well: the launcher ended with exit code 0, and so did all of its ranks.
        failures: the patterns of the launcher's reports.
    """
    matches = [match.groupdict() for match in re.finditer(failures.exits[0], launcher_log, re.MULTILINE)]
    failed = {int(match["rank"]): match.get("pid") for match in matches}
    stopped = set(re.findall(failures.stopped, launcher_log)) if failures.stopped else set()
    if not ended_well and (not failed or stopped - set(failed.values())):
        return []  # torchrun stopped a rank without reporting it. We cannot tell which rank
    return [rank for rank in ranks if rank not in finished and rank not in failed]


def first_cause(exits: Sequence[RankExit], rank_log: Callable[[int], str], failures: Failures) -> RankExit | None:
    """The first rank of a node that did not end because of another rank; None where no rank did.

    The order in a launcher's report may have whole seconds only. A rank ended because of another rank if the launcher
    stopped it (SIGTERM), or if its log has a broken connection to its peers.
    """

    def followed(exit_: RankExit) -> bool:
        return exit_.exit_status == -signal.SIGTERM or (
            exit_.exit_status in BY_PEERS and has_followed(rank_log(exit_.rank), failures)
        )

    return next((exit_ for exit_ in exits if not followed(exit_)), None)


def moment(seconds: float) -> int:
    """Whole seconds of a time since the last quarter of an hour: equal in all time zones. Launchers name no zone."""
    return int(seconds) % QUARTER


def seconds_ago(past: int, now: float) -> int:
    """Seconds since a moment of the last few minutes.

    Args:
        now: seconds since the epoch, by the clock of the moment.
    """
    return (moment(now) - past + QUARTER // 2) % QUARTER - QUARTER // 2


def has_followed(log: str, failures: Failures) -> bool:
    """Whether a log reports that a peer was gone."""
    return any(re.search(pattern, log) for pattern in failures.followed)


def cause(exit_status: int, reason: str | None = None) -> str:
    """An exit status as text, after the reason if there is one: "exit code 3", "out of luck (signal SIGKILL)"."""
    text = f"exit code {exit_status}" if exit_status >= 0 else f"signal {signal_name(exit_status)}"
    return f"{reason} ({text})" if reason else text


def signal_name(exit_status: int) -> str:
    """Name of the signal of a negative exit status, such as "SIGKILL"; its number where the signal has no name."""
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return str(-exit_status)


def raised(log: str) -> str | None:
    """The last exception in a log: "RuntimeError: out of luck"; None where the log has none.

    torch.distributed begins each line of a traceback with the rank.
    """
    pattern = r"^(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b(?:: .*)?)$"
    exceptions = re.findall(pattern, log, re.MULTILINE)
    return exceptions[-1][:MOST_CHARACTERS] if exceptions else None


def refused(log: str) -> tuple[str, dict[str, str]] | None:
    """Problem and details of the last ConfigError in a rank's log; None where the log has none."""
    refusals = list(re.finditer(r"^ConfigError: (.*)\n((?:  \w+: +.*\n(?:    .*\n)*)+)", log, re.MULTILINE))
    if not refusals:
        return None
    details = re.findall(r"^  (\w+): +(.*(?:\n    .*)*)", refusals[-1][2], re.MULTILINE)
    return refusals[-1][1], dict(details)


def behind(logs: Mapping[int, str]) -> int | None:
    """The only rank with the lowest last step in its log; None where several ranks have this step."""
    steps = {}
    for rank, log in logs.items():
        events = [event for line in log.splitlines() if (event := parse(line))]
        steps[rank] = max((int(event.value.get("step", 0)) for event in events), default=0)
    lowest = [rank for rank, step in steps.items() if step == min(steps.values())]
    return lowest[0] if len(lowest) == 1 else None


def has_finished(log: str) -> bool:
    """Whether a rank logged FINISHED."""
    return any(event.event == "FINISHED" for line in log.splitlines() if (event := parse(line)))


def before_the_launcher(launcher_log: str, failures: Failures) -> str:
    """What the ranks of a node printed before they had logs: all up to the launcher's first report of an end."""
    reports = [
        match.start() for pattern in failures.exits for match in re.finditer(pattern, launcher_log, re.MULTILINE)
    ]
    return launcher_log[: launcher_log.rfind("\n", 0, min(reports)) + 1] if reports else ""


def last_lines(log: str) -> tuple[str, ...]:
    """The end of a log, without PerfLog lines and empty ones."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and PREFIX not in line]
    return tuple(lines[-LAST_LINES:])
