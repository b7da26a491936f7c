"""The slow and late ranks of a round, with their figures of the monitors, and their sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flagperf.contract.records import LateRank, SlowRank
from flagperf.results.rank_log import RankLog
from flagperf.results.rank_monitors import figure_text, rank_monitors
from flagperf.results.stragglers import Finding, stragglers
from flagperf.results.waits import Waits


def slow_and_late(folder: Path, logs: Sequence[RankLog], config: Mapping[str, Any], ranks: int) -> tuple[Finding, ...]:
    """Every slow and late rank of a round, from the logs of its ranks and nodes.

    Args:
        folder: of the round.
        config: of the job.
        ranks: of the job.
    """
    if ranks < 2 or len(logs) < ranks:
        return ()
    records = [(log.rank, event.value) for log in logs for event in log.all("STEP_END")]
    visible = {log.node_rank: event.value.get("visible_devices") for log in logs for event in log.all("SUBMIT_INFO")}
    times = {(log.rank, event.value.get("step")): event.time_ms / 1000 for log in logs for event in log.all("STEP_END")}
    hosts = {log.rank: log.host for log in logs}
    measured = stragglers(records, ranks, int(config.get("warmup_steps") or 0))
    known = {(finding.rank, finding.first_step) for finding in measured if isinstance(finding, LateRank)}
    waited_for = (late for late in late_in_collectives(logs) if (late.rank, late.first_step) not in known)
    return tuple(
        with_monitors(finding, hosts[finding.rank], folder, config, visible, times)
        for finding in (*measured, *waited_for)
    )


def late_in_collectives(logs: Sequence[RankLog]) -> Iterator[LateRank]:
    """The ranks that others logged to have waited for."""
    if not any(log.all("WAITING") for log in logs):
        return
    waits = Waits()
    events = ((event.time_ms / 1000, log.rank, event) for log in logs for event in log.events)
    for time, rank, event in sorted(events, key=lambda entry: entry[0]):
        if event.event == "STEP_END":
            waits.step_ended(rank, int(event.value.get("step") or 0))
        elif event.event == "WAITING":
            yield from waits.observe(rank, event.value, time)


def with_monitors(
    finding: Finding,
    host: str,
    folder: Path,
    config: Mapping[str, Any],
    visible: Mapping[int, str | None],
    times: Mapping[tuple[int, Any], float],
) -> Finding:
    """The finding with its host and, for a slow rank, with the monitors' figures over the slow steps.

    Args:
        folder: of the round.
        config: of the job.
        visible: as in `rank_monitors`.
        times: rank and step → end of the step, in seconds since the epoch, by the launcher's clock.
    """
    if isinstance(finding, LateRank):
        return replace(finding, host=host)
    ended = times[finding.rank, finding.last_step]
    began = max((time for (rank, step), time in times.items() if rank == finding.rank and step < finding.first_step),
                default=min(time for (rank, _), time in times.items() if rank == finding.rank))  # fmt: skip
    figures = rank_monitors(folder, config, visible, finding.rank, began, ended)
    return replace(finding, host=host, figures=figures)


def sentence(finding: Finding) -> str:
    """The figures of a slow or late rank, in a sentence."""
    steps = f"steps {finding.first_step:,} to {finding.last_step:,}"
    if isinstance(finding, LateRank):
        if finding.collective:
            return (
                f"rank {finding.rank} on {finding.host} has not arrived in {finding.collective} after step "
                f"{finding.first_step - 1:,}: other ranks have waited {finding.seconds:.1f} s or longer"
            )
        return f"the other ranks waited {finding.seconds:.1f} s for rank {finding.rank} on {finding.host}, in {steps}"
    text = (
        f"rank {finding.rank} on {finding.host} is slow: its own part of a step took {finding.excess:.0%} longer than "
        f"the median of the other ranks, {_ms(finding.own_time)} and {_ms(finding.others_time)}, in {steps}"
    )
    if finding.data_wait - finding.others_data_wait > (finding.own_time - finding.others_time) / 2:
        text += f". Most of the difference is waiting for data: {_ms(finding.data_wait)} of a step"
    return text


def monitors_text(finding: SlowRank) -> str:
    """What the monitors saw of a slow rank; empty where they saw nothing."""
    return "; ".join(figure_text(name, figures) for name, figures in finding.figures.items())


def sentences(findings: Iterable[Finding]) -> Iterator[str]:
    """A sentence for each finding, and the monitors' figures."""
    for finding in findings:
        text = monitors_text(finding) if isinstance(finding, SlowRank) else ""
        yield sentence(finding) + (f". Monitors meanwhile: {text}" if text else "")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.4g} ms"
