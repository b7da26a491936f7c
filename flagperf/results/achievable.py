"""A round beside what its product allows: the traced step of the job on the product's figures (docs/predict.md).

The trace lies in the job's folder, as traced_step.json. The figures are those of a probe where the round made one, else
those of the data sheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flagperf.contract.mesh import Mesh
from flagperf.contract.records import NO_TRACE, Achievable, ClassShare, Finding, ProbedDevice
from flagperf.contract.regular import regular
from flagperf.contract.trace import Trace, from_json
from flagperf.predict.times import Figures, figures_of, mesh_of, missing, step_times
from flagperf.results.evidence import Evidence

FILE = "traced_step.json"  # in the folder of a job
TOLERANCE = 0.02  # data sheets round their figures


def achievable(
    trace: Trace | None, config: Mapping[str, Any], values: Mapping[str, Any], probe: Sequence[ProbedDevice] = ()
) -> Achievable | None:
    """What a round could have reached; None where it has no figures.

    Args:
        trace: of one step of one rank; None: the job was not traced.
        values: FINISHED of the round.
    """
    units = _units_of_a_step(values)
    if units is None:
        return None
    figures, sheet = figures_of(config, probe), figures_of(config)
    if trace is None:
        return Achievable(missing=(*figures.speeds.missing, NO_TRACE))
    mesh = mesh_of(config)
    allowed = Achievable(
        source=figures.speeds.source,
        missing=missing(trace, mesh, figures),
        operations=trace.operations,
        moved=trace.moved,
    )
    if not missing(trace, mesh, sheet):
        allowed = replace(allowed, bound=units / step_times(trace, mesh, sheet).at_least(fused=True, overlap=True))
    return (
        allowed if allowed.missing else _with_times(allowed, trace, mesh, figures, config, units, values.get("p_train"))
    )


def _with_times(
    allowed: Achievable,
    trace: Trace,
    mesh: Mesh,
    figures: Figures,
    config: Mapping[str, Any],
    units: float,
    measured: float | None,
) -> Achievable:
    times, fused = step_times(trace, mesh, figures), bool(config["compile"])
    least = times.at_least(fused=fused, overlap=True)
    classes = tuple(
        ClassShare(time.operator_class, time.seconds / least, time.limited_by) for time in times.classes(fused=fused)
    )
    share = None if measured is None else measured * least / units
    return replace(allowed, throughput=units / least, share=share, step_time=least, classes=classes)


def _units_of_a_step(values: Mapping[str, Any]) -> float | None:
    """Units, such as tokens or images, that the whole job trains in an optimizer step."""
    units, steps = values.get("num_trained_units"), (values.get("global_steps") or 0)
    own_steps = steps - (values.get("resumed_from_step") or 0)
    return units / own_steps if units and own_steps > 0 else None


def within_the_bound(evidence: Evidence) -> Iterator[Finding]:
    """Nothing is faster than its bound; if a figure is, then a peak, a count or the figure is wrong."""
    allowed = evidence.achievable
    if allowed is None or allowed.bound is None:
        return
    for name in ("p_core", "p_train", "p_whole"):
        figure = evidence.number(name)
        if figure is not None and figure > allowed.bound * (1 + TOLERANCE):
            product = evidence.config["hardware"]["name"]
            yield (
                "SUSPECT",
                f"{name} is {figure:.6g}, above the {allowed.bound:.6g} that the traced step and the data sheet of "
                f"{product} allow: a peak, a count of operations or bytes, or the figure is wrong",
            )
            return


def trace_of(job_folder: Path) -> Trace | None:
    """The trace of a job; None where there is none. Raises ConfigError where it is damaged."""
    path = job_folder / FILE
    return from_json(regular(path).read_text(encoding="utf-8"), str(path)) if path.exists() else None
