"""Finds why a round failed, from the answers of the hosts and from their logs.

A failure names a host and a rank only where they are known to be at fault.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from flagperf.config.schema.platform import Failures
from flagperf.contract.outcome import Failure
from flagperf.errors import ConfigError
from flagperf.plan.values import CONFIG
from flagperf.run.blame import (
    RankExit,
    before_the_launcher,
    behind,
    cause,
    early_exits,
    first_cause,
    has_finished,
    has_followed,
    last_lines,
    raised,
    rank_exits,
    refused,
    seconds_ago,
    signal_name,
)
from flagperf.run.node_run import NodeRun
from flagperf.run.stacks import last_traceback, stack, stuck, write_stacks

OUT_OF_MEMORY = "out of memory: killed by the kernel"
FULL_LOG = "its log reached the limit of a file's size there (ulimit -f)"
LATE = 2.0  # seconds; a launcher's end is seen no later than that


class PortTaken(Exception):
    """Another process listens on the rendezvous port; no rank has started."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


async def failed_exit(nodes: Sequence[NodeRun], *, final: bool = True) -> Failure | None:
    """Why a round failed: the first end of a rank, or of a launcher of ranks, that no other end explains.

    Args:
        final: whether waiting can bring no further reports.

    Returns:
        None where nothing failed; without `final` also where other ends explain all known ends.
    """
    reasons, reports = await _reasons(nodes), await _reports(nodes)
    exits = {node: rank_exits(report, node.node.ranks[0], _patterns(node)) for node, report in reports.items()}
    owner = {exit_.rank: node for node, node_exits in exits.items() for exit_ in node_exits}
    logs = await _rank_logs(owner)
    ends = [end for node in nodes if (end := _first_end(node, exits[node], reasons[node], reports[node], logs))]
    failed = [node for node in nodes if node.failed]
    first = max(ends, key=lambda end: end.ago, default=None)
    if first is None and (early := await _early_failure(nodes, reports)):
        return early
    if first is None and not (final and failed):
        return None
    suspects = [first.node] if first else failed
    full = [node for node in suspects if await node.logs.disk_full()]
    if full:
        problem = f"disk full: no space left for {full[0].node.log_dir}"
        return failure(full[:1], problem, rank=first.exit_.rank if first and first.exit_ else None)
    if first and first.exit_:
        return await _rank_ended(first.node, first.exit_, reasons[first.node], logs[first.exit_.rank], reports)
    if first is None and owner:
        return _all_followed([exit_ for node_exits in exits.values() for exit_ in node_exits], owner, logs)
    launchers = [end.node for end in ends if end.exit_ is None] or failed
    with_reason = [node for node in launchers if reasons[node]]
    return _launcher_ended(with_reason if len(with_reason) == 1 else launchers, reasons, reports)


async def _rank_ended(
    node: NodeRun, exit_: RankExit, reason: str | None, log: str, reports: Mapping[NodeRun, str]
) -> Failure:
    """The failure of a rank. The runtime or the kernel gives the reason, else what the rank printed."""
    log = log or before_the_launcher(reports[node], _patterns(node))
    status, lines = exit_.exit_status, last_lines(log or reports[node])
    if status == ConfigError.exit_code and (refusal := refused(log)):
        problem, details = refusal
        if details.get("where") == CONFIG and "key" in details:
            details["where"] = node.job.where(details["key"])  # ranks know config.yaml only
        return failure([node], problem, rank=exit_.rank, status=status, details=details)
    if reason is None and status == -signal.SIGKILL and await node.ran_out_of_memory():
        return failure([node], OUT_OF_MEMORY, rank=exit_.rank, status=status, lines=lines)
    if reason is None and status > 0 and await node.filled_its_log(exit_.rank):
        return failure([node], FULL_LOG, rank=exit_.rank, status=status, lines=lines)
    rank_cause = cause(status, reason or (raised(log) if status > 0 else None))
    return failure([node], rank_cause, rank=exit_.rank, status=status, lines=lines)


def _patterns(node: NodeRun) -> Failures:
    """The patterns of the reports of the framework's launcher and ranks."""
    return node.job.framework.failures


@dataclass(frozen=True)
class _End:
    """An end of a rank, or of a node's launcher of ranks, that no other end explains."""

    node: NodeRun
    exit_: RankExit | None  # None: the launcher's
    ago: float  # seconds


def _first_end(
    node: NodeRun, exits: Sequence[RankExit], reason: str | None, report: str, logs: Mapping[int, str]
) -> _End | None:
    """The first end on a node that no other end explains; None where there is no such end."""
    if exits:
        only_rank = exits[0] if len(node.plan.nodes) == len(node.node.ranks) == 1 else None
        first = first_cause(exits, logs.__getitem__, _patterns(node)) or only_rank
        if first is None:
            return None
        now = time.time() + node.transport.clock_offset  # by the host's clock, like the moment
        return _End(node, first, 0.0 if first.moment is None else seconds_ago(first.moment, now))
    if node.ended is None or node.exit_status == 0:
        return None
    if not reason and has_followed(report, _patterns(node)) and _patterns(node).port_taken not in report:
        return None
    # A launcher's end is seen a little late; a rank's end is known in whole seconds.
    return _End(node, None, time.monotonic() - node.ended + LATE)


async def _early_failure(nodes: Sequence[NodeRun], reports: Mapping[NodeRun, str]) -> Failure | None:
    """The failure of ranks that ended with exit code 0 before FINISHED; None where there are none."""
    owner = {rank: node for node in nodes for rank in node.node.ranks}
    logs = await _rank_logs(owner)
    finished = [rank for rank, log in logs.items() if has_finished(log)]
    succeeded = {node: node.ended is not None and node.exit_status == 0 for node in nodes}
    early = [
        rank
        for node in nodes
        for rank in early_exits(reports[node], node.node.ranks, finished, succeeded[node], _patterns(node))
    ]
    if not early:
        return None
    problem = f"{cause(0)} before the training had ended"
    suspects, log = [owner[rank] for rank in early], logs[early[0]]
    if len(early) == 1:
        return failure(suspects, problem, rank=early[0], status=0, lines=last_lines(log))
    rank_list = ", ".join(map(str, early))
    return failure(suspects, f"ranks {rank_list}: {problem}", status=0, lines=_lines_of(early[0], suspects[0], log))


def _all_followed(exits: Sequence[RankExit], owner: Mapping[int, NodeRun], logs: Mapping[int, str]) -> Failure:
    """The failure of ranks that all ended because of another, unknown rank."""
    ranks = ", ".join(str(exit_.rank) for exit_ in exits)
    ends = ", ".join(dict.fromkeys(cause(exit_.exit_status) for exit_ in exits))
    shown = exits[0].rank
    lines = _lines_of(shown, owner[shown], logs[shown])
    subject = f"ranks {ranks} ended, each" if len(exits) > 1 else f"rank {ranks} ended"
    problem = f"{subject} as if another rank had failed first: {ends}"
    return failure([owner[exit_.rank] for exit_ in exits] if len(exits) > 1 else [], problem, lines=lines)


def _launcher_ended(
    failed: Sequence[NodeRun], reasons: Mapping[NodeRun, str | None], reports: Mapping[NodeRun, str]
) -> Failure:
    """The failure of nodes whose launcher of ranks ended, where no rank is known to have failed."""
    for node in failed:
        lines = last_lines(reports[node])
        if node.exit_status is None:
            return failure([node], reasons[node] or "lost host: the connection ended", lines=lines)
        if _patterns(node).port_taken in reports[node]:
            problem = f"rendezvous port {node.plan.master_port} is taken"
            raise PortTaken(failure([node], problem, status=node.exit_status, lines=lines))
    said = {node: reasons[node] or (raised(reports[node]) if (node.exit_status or 0) > 0 else None) for node in failed}
    ends = dict.fromkeys(cause(node.exit_status or 0, said[node]) for node in failed)
    if len(failed) == 1:
        problem = f"the launcher of the ranks ended: {next(iter(ends))}"
        return failure(failed, problem, status=failed[0].exit_status, lines=last_lines(reports[failed[0]]))
    hosts = ", ".join(node.host for node in failed)
    lines = (f"launcher on {failed[0].host}:", *last_lines(reports[failed[0]]))
    return failure(failed, f"the launchers of the ranks ended on {hosts}: {', '.join(ends)}", lines=lines)


async def passed_deadline(problem: str, silent: Collection[int], nodes: Sequence[NodeRun]) -> Failure:
    """The failure of a passed deadline, with the rank that hangs, if known, and its stack."""
    for node, reason in (await _reasons(nodes)).items():
        if reason:
            return failure([node], f"{problem}: {reason}")
    await asyncio.gather(*(write_stacks(node.transport, node.node.log_dir) for node in nodes))
    owner = {rank: node for node in nodes for rank in node.node.ranks}
    logs = await _rank_logs(owner)
    rank = _hanging(silent, logs, _patterns(nodes[0]).waiting)
    shown = min(silent, default=0) if rank is None else rank
    log = "\n".join(stack(logs[shown])) or logs[shown] or (await _reports([owner[shown]]))[owner[shown]]
    earlier = _earlier_traceback(logs, shown)
    if rank is not None:
        return failure([owner[rank]], problem, rank=rank, lines=(*last_lines(log), *earlier))
    suspects = [owner[rank] for rank in sorted(silent)] or nodes
    return failure(suspects, problem, lines=(*_lines_of(shown, owner[shown], log), *earlier))


def _earlier_traceback(logs: Mapping[int, str], shown: int) -> tuple[str, ...]:
    """The last traceback of a rank, the shown one first. The rank may wait for what it ended."""
    for rank in (shown, *sorted(logs)):
        if lines := last_traceback(logs[rank]):
            return (f"the last traceback in the log of rank {rank}:", *lines)
    return ()


def _hanging(silent: Collection[int], logs: Mapping[int, str], waiting: Collection[str]) -> int | None:
    """The only rank that the others wait for; None where it is unknown, or several ranks hang."""
    if silent:
        return min(silent) if len(silent) == 1 else None
    rank = stuck(logs, waiting)
    return behind(logs) if rank is None else rank


def failure(
    suspects: Sequence[NodeRun],
    problem: str,
    *,
    rank: int | None = None,
    status: int | None = None,
    lines: tuple[str, ...] = (),
    details: Mapping[str, str] | None = None,
) -> Failure:
    """A failure on the suspects. A single suspect is named."""
    node = suspects[0] if len(set(suspects)) == 1 else None
    return Failure(
        problem,
        host=node.host if node else None,
        node_rank=node.rank if node else None,
        rank=rank,
        phase=phase(suspects) if rank is None else "start" if rank in suspects[0].logs.silent else "training",
        exit_status=status if status is not None and status >= 0 else None,
        signal=signal_name(status) if status is not None and status < 0 else None,
        last_lines=lines,
        details=details or {},
    )


def phase(nodes: Sequence[NodeRun]) -> str:
    """ "start" until the ranks of each node have logged something; then "training"."""
    return "training" if all("launch" in node.times.seconds for node in nodes) else "start"


def _lines_of(rank: int, node: NodeRun, log: str) -> tuple[str, ...]:
    """The end of a rank's log below the name of the rank: an example where the failure names no rank."""
    return (f"rank {rank} on {node.host}:", *last_lines(log))


async def _reasons(nodes: Sequence[NodeRun]) -> dict[NodeRun, str | None]:
    """The reason of each node's runtime for the end of its process, if it knows one."""
    started = {node: node.process for node in nodes if node.process}
    return dict(zip(started, await asyncio.gather(*(process.reason() for process in started.values())), strict=True))


async def _reports(nodes: Sequence[NodeRun]) -> dict[NodeRun, str]:
    """The end of the output of each node's launcher of ranks."""
    return dict(
        zip(nodes, await asyncio.gather(*(node.logs.last_text(node.logs.launcher) for node in nodes)), strict=True)
    )


async def _rank_logs(owner: Mapping[int, NodeRun]) -> dict[int, str]:
    """The ends of the logs of ranks."""
    work = (node.logs.last_text(node.logs.of_rank(rank)) for rank, node in owner.items())
    return dict(zip(owner, await asyncio.gather(*work), strict=True))
