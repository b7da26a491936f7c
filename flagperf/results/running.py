"""The state of a round that is not over, from the logs of its ranks so far."""

from __future__ import annotations

from collections.abc import Iterator

from flagperf.results.evidence import Evidence

GOES_ON = ("running", "waiting")  # statuses of a round that is not over


def so_far(evidence: Evidence) -> str:
    """The state in one line: "running: step 120, loss 0.53; acc1 81.2 at step 100"."""
    known = "; ".join(_known(evidence))
    return f"{evidence.status}: {known}" if known else evidence.status


def _known(evidence: Evidence) -> Iterator[str]:
    if evidence.status == "waiting":
        yield "its turn has not come"
    elif not evidence.logs:
        yield "no rank has logged anything yet"
    else:
        log = evidence.logs[0]
        steps, evaluations = log.all("STEP_END"), log.all("EVALUATE")
        if steps:
            step, loss = steps[-1].value.get("step"), steps[-1].value.get("loss")
            yield f"step {step}" + (f", loss {loss:.4g}" if loss is not None else "")
        else:
            yield f"no step yet, {log.events[-1].event} was the last event" if log.events else "no event yet"
        target = evidence.target
        if evaluations and target and (value := evaluations[-1].value.get(target.metric)) is not None:
            yield f"{target.metric} {value:.4g} at step {evaluations[-1].value.get('step')}"
