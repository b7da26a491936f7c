"""Why a round failed: asked of the hosts, and read from their logs.

A failure names the host and the rank that are known to be at fault, and nobody where that is not known.
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
    behind,
    cause,
    first_cause,
    has_finished,
    has_followed,
    last_lines,
    left_early,
    raised,
    rank_exits,
    refused,
    seconds_ago,
    signal_name,
)
from flagperf.run.node_run import NodeRun
from flagperf.run.stacks import stack, stuck, write_stacks

OUT_OF_MEMORY = "out of memory: killed by the kernel"
LATE = 2.0  # seconds after which the end of a launcher is seen at most


class PortTaken(Exception):
    """Someone else listens on the rendezvous port; no rank has started."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


async def failed_exit(nodes: Sequence[NodeRun], *, final: bool = True) -> Failure | None:
    """Why a round failed: the rank or the launcher of the ranks that ended first of itself.

    Args:
        final: no more is to be learned by waiting. Otherwise None, where all that ended did so because of another.

    Returns:
        None, too, where nothing failed at all.
    """
    reasons, reports = await _reasons(nodes), await _reports(nodes)
    exits = {node: rank_exits(report, node.node.ranks[0], _says(node)) for node, report in reports.items()}
    owner = {exit_.rank: node for node, found in exits.items() for exit_ in found}
    logs = await _rank_logs(owner)
    ends = [end for node in nodes if (end := _own_end(node, exits[node], reasons[node], reports[node], logs))]
    failed = [node for node in nodes if node.failed]
    first = max(ends, key=lambda end: end.ago, default=None)
    if first is None and (early := await _left_early(nodes, reports)):
        return early
    if first is None and not (final and failed):
        return None
    suspects = [first.node] if first else failed
    full = [node for node in suspects if await node.logs.disk_full()]
    if full:
        why = f"disk full: no space left for {full[0].node.log_dir}"
        return failure(full[:1], why, rank=first.exit_.rank if first and first.exit_ else None)
    if first and first.exit_:
        return await _rank_ended(first.node, first.exit_, reasons[first.node], logs[first.exit_.rank], reports)
    if first is None and owner:
        return _all_followed([exit_ for found in exits.values() for exit_ in found], owner, logs)
    launchers = [end.node for end in ends if end.exit_ is None] or failed
    told = [node for node in launchers if reasons[node]]
    return _launcher_ended(told if len(told) == 1 else launchers, reasons, reports)


async def _rank_ended(
    node: NodeRun, exit_: RankExit, reason: str | None, log: str, reports: Mapping[NodeRun, str]
) -> Failure:
    """A rank ended of itself: in the words of the runtime or the kernel, else in its own."""
    status, lines = exit_.exit_status, last_lines(log or reports[node])
    if status == ConfigError.exit_code and (wrong := refused(log)):
        problem, details = wrong
        if details.get("where") == CONFIG and "key" in details:
            details["where"] = node.job.where(details["key"])  # the ranks know no other file
        return failure([node], problem, rank=exit_.rank, status=status, details=details)
    if reason is None and status == -signal.SIGKILL and await node.ran_out_of_memory():
        return failure([node], OUT_OF_MEMORY, rank=exit_.rank, status=status, lines=lines)
    why = _why(status, reason or (raised(log) if status > 0 else None))
    return failure([node], why, rank=exit_.rank, status=status, lines=lines)


def _says(node: NodeRun) -> Failures:
    """How the framework's launcher and ranks say why they ended."""
    return node.job.framework.failures


@dataclass(frozen=True)
class _End:
    """An end of a rank, or of the launcher of the ranks of a node, which that of no other explains."""

    node: NodeRun
    exit_: RankExit | None  # None: the launcher's
    ago: float  # seconds


def _own_end(
    node: NodeRun, exits: Sequence[RankExit], reason: str | None, report: str, logs: Mapping[int, str]
) -> _End | None:
    """What first failed of itself on a node; None where nothing did."""
    if exits:
        alone = exits[0] if len(node.plan.nodes) == len(node.node.ranks) == 1 else None
        first = first_cause(exits, logs.__getitem__, _says(node)) or alone
        if first is None:
            return None
        now = time.time() + node.transport.clock_offset  # by the clock of the host, as the moment is
        return _End(node, first, 0.0 if first.moment is None else seconds_ago(first.moment, now))
    if node.ended is None or node.exit_status == 0:
        return None
    if not reason and has_followed(report, _says(node)) and _says(node).port_taken not in report:
        return None
    # Seen a little after it happened, while a rank's end is known in whole seconds.
    return _End(node, None, time.monotonic() - node.ended + LATE)


async def _left_early(nodes: Sequence[NodeRun], reports: Mapping[NodeRun, str]) -> Failure | None:
    """Ranks that ended as if all were well, before they had finished; None where there are none."""
    owner = {rank: node for node in nodes for rank in node.node.ranks}
    logs = await _rank_logs(owner)
    finished = [rank for rank, log in logs.items() if has_finished(log)]
    well = {node: node.ended is not None and node.exit_status == 0 for node in nodes}
    early = [
        rank for node in nodes for rank in left_early(reports[node], node.node.ranks, finished, well[node], _says(node))
    ]
    if not early:
        return None
    why = f"{cause(0)} before the training had ended"
    suspects, log = [owner[rank] for rank in early], logs[early[0]]
    if len(early) == 1:
        return failure(suspects, why, rank=early[0], status=0, lines=last_lines(log))
    named = ", ".join(map(str, early))
    return failure(suspects, f"ranks {named}: {why}", status=0, lines=_lines_of(early[0], suspects[0], log))


def _all_followed(exits: Sequence[RankExit], owner: Mapping[int, NodeRun], logs: Mapping[int, str]) -> Failure:
    """Ranks ended because another one had, and that one is not among them."""
    ranks = ", ".join(str(exit_.rank) for exit_ in exits)
    ends = ", ".join(dict.fromkeys(cause(exit_.exit_status) for exit_ in exits))
    shown = exits[0].rank
    lines = _lines_of(shown, owner[shown], logs[shown])
    who = f"ranks {ranks} ended, each" if len(exits) > 1 else f"rank {ranks} ended"
    why = f"{who} as if another one had failed first: {ends}"
    return failure([owner[exit_.rank] for exit_ in exits] if len(exits) > 1 else [], why, lines=lines)


def _launcher_ended(
    failed: Sequence[NodeRun], reasons: Mapping[NodeRun, str | None], reports: Mapping[NodeRun, str]
) -> Failure:
    """The launchers of the ranks ended on some nodes, and no rank is known to have failed."""
    for node in failed:
        lines = last_lines(reports[node])
        if node.exit_status is None:
            return failure([node], reasons[node] or "lost host: the connection ended", lines=lines)
        if _says(node).port_taken in reports[node]:
            why = f"rendezvous port {node.plan.master_port} is taken"
            raise PortTaken(failure([node], why, status=node.exit_status, lines=lines))
    ends = dict.fromkeys(_why(node.exit_status or 0, reasons[node]) for node in failed)
    if len(failed) == 1:
        why = f"the launcher of the ranks ended: {next(iter(ends))}"
        return failure(failed, why, status=failed[0].exit_status, lines=last_lines(reports[failed[0]]))
    hosts = ", ".join(node.host for node in failed)
    lines = (f"launcher on {failed[0].host}:", *last_lines(reports[failed[0]]))
    return failure(failed, f"the launchers of the ranks ended on {hosts}: {', '.join(ends)}", lines=lines)


async def passed_deadline(why: str, silent: Collection[int], nodes: Sequence[NodeRun]) -> Failure:
    """Why a deadline has passed: the rank that it is about, where one can be told from the others, and its stack."""
    for node, reason in (await _reasons(nodes)).items():
        if reason:
            return failure([node], f"{why}: {reason}")
    await asyncio.gather(*(write_stacks(node.transport, node.node.log_dir) for node in nodes))
    owner = {rank: node for node in nodes for rank in node.node.ranks}
    logs = await _rank_logs(owner)
    rank = _hanging(silent, logs, _says(nodes[0]).waiting)
    shown = min(silent, default=0) if rank is None else rank
    log = "\n".join(stack(logs[shown])) or logs[shown] or (await _reports([owner[shown]]))[owner[shown]]
    if rank is not None:
        return failure([owner[rank]], why, rank=rank, lines=last_lines(log))
    suspects = [owner[one] for one in sorted(silent)] or nodes
    return failure(suspects, why, lines=_lines_of(shown, owner[shown], log))


def _hanging(silent: Collection[int], logs: Mapping[int, str], waiting: Collection[str]) -> int | None:
    """The one rank that the others wait for; None where it is not known to be one."""
    if silent:
        return min(silent) if len(silent) == 1 else None
    rank = stuck(logs, waiting)
    return behind(logs) if rank is None else rank


def failure(
    suspects: Sequence[NodeRun],
    why: str,
    *,
    rank: int | None = None,
    status: int | None = None,
    lines: tuple[str, ...] = (),
    details: Mapping[str, str] | None = None,
) -> Failure:
    """A failure on one of the suspects, which is named where it is the only one."""
    node = suspects[0] if len(set(suspects)) == 1 else None
    return Failure(
        why,
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
    """start, until each of the nodes has shown that its ranks run; then training."""
    return "training" if all("launch" in node.times.seconds for node in nodes) else "start"


def _lines_of(rank: int, node: NodeRun, log: str) -> tuple[str, ...]:
    """The end of a rank's log, below a line that says whose it is: an example, where nobody is named."""
    return (f"rank {rank} on {node.host}:", *last_lines(log))


async def _reasons(nodes: Sequence[NodeRun]) -> dict[NodeRun, str | None]:
    """What the runtime of each node knows beyond exit statuses."""
    started = {node: node.process for node in nodes if node.process}
    return dict(zip(started, await asyncio.gather(*(process.reason() for process in started.values())), strict=True))


async def _reports(nodes: Sequence[NodeRun]) -> dict[NodeRun, str]:
    """The ends of what the launcher of the ranks printed on each node."""
    return dict(
        zip(nodes, await asyncio.gather(*(node.logs.last_text(node.logs.launcher) for node in nodes)), strict=True)
    )


async def _rank_logs(owner: Mapping[int, NodeRun]) -> dict[int, str]:
    """The ends of the logs of some ranks."""
    work = (node.logs.last_text(node.logs.of_rank(rank)) for rank, node in owner.items())
    return dict(zip(owner, await asyncio.gather(*work), strict=True))


def _why(exit_status: int, reason: str | None) -> str:
    return f"{reason} ({cause(exit_status)})" if reason else cause(exit_status)
