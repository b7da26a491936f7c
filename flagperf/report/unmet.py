"""Why a run with `require_target=true` ends with exit code 6."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flagperf.contract.records import Result, Summary
from flagperf.report.cells import condition, number
from flagperf.results.result import MISSED, exit_code


def unmet_lines(summaries: Iterable[Summary]) -> list[str]:
    """A line for each round that had to show that it reaches its target, and did not."""
    jobs = [job for job in summaries if exit_code([job], bool(job.config.get("require_target"))) == MISSED]
    return [
        f"target not reached (require_target=true): {job.name}, round {result.round}: {why}"
        for job in jobs
        for result in job.results
        for why in _why(result)
    ]


def _why(result: Result) -> Iterator[str]:
    goal = result.target
    if result.target_reached is True:
        return
    if goal is None:
        yield "the case has no target"
    elif result.synthetic or result.other_data or (result.sample_data and result.identity.size == "full"):
        other = f"other data ({result.other_data})" if result.other_data else "sample data"
        kind = "synthetic data" if result.synthetic else other
        yield f"{condition(goal)} does not apply to {kind}"
    elif unknown := [name for name in goal.values if result.values.get(f"final_{name}") is None]:
        yield f"{condition(goal)} is not known: {', '.join(unknown)} was not measured"
    else:
        reached = ", ".join(f"{name} {number(result.values[f'final_{name}'])}" for name in goal.values)
        yield f"{reached} instead of {condition(goal)}, ended by {result.values.get('stop_reason')}"
