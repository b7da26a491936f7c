"""Predicted scales as tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flagperf.predict.roofline import ClassTime
from flagperf.predict.scaling import Scale, efficiency, fastest, smallest
from flagperf.predict.schedule import Schedule
from flagperf.report.cells import ABSENT, number, percent
from flagperf.report.measured_scales import Measured
from flagperf.report.page import grid, render
from flagperf.report.plots import Chart, Point, lines

ELEMENT = "scales"  # the element of the plots
NOTE = (
    "At most: no operator takes less time than its operations at the peak or its bytes at the memory bandwidth. "
    "Eager: each operator reads and writes memory; fused: chains of element-wise operators are one kernel. "
    "MFU: operations of the traced step, recomputation included, over the peak. "
    "Efficiency: throughput of a device against the fewest nodes with the same tp."
)


def scale_rows(scales: Sequence[Scale], measured: Sequence[Measured] = ()) -> list[dict[str, str]]:
    """A line a scale. `measured`: runs, for a column with those of the same nodes and mesh."""
    return [
        {
            "scale": f"{scale.nnodes}x{scale.nproc}",
            "devices": str(scale.devices),
            "mesh": " x ".join(f"{side}={size}" for side, size in vars(scale.mesh).items() if size > 1) or "one rank",
            "memory [GiB]": number(scale.memory, 3),
            "fits": "yes" if scale.fits else "no",
            "step at least [ms]": _milliseconds(scale),
            "samples/s at most, fused": number(scale.rate()),
            "no overlap": number(scale.rate(overlap=False)),
            "eager": number(scale.rate(fused=False)),
            "eager, no overlap": number(scale.rate(fused=False, overlap=False)),
            "MFU": percent(scale.mfu()),
            "efficiency": percent(efficiency(scale, scales)),
            **({"measured": _measured(scale, measured)} if measured else {}),
        }
        for scale in scales
    ]


def _measured(scale: Scale, measured: Sequence[Measured]) -> str:
    """What runs of this scale reached, in samples/s."""
    alike = (scale.nnodes, scale.nproc, scale.mesh)
    rates = [number(run.rate) for run in measured if (run.nnodes, run.nproc, run.mesh) == alike]
    return ", ".join(rates) or ABSENT


def _milliseconds(scale: Scale) -> str:
    return ABSENT if scale.times is None else number(1000 * scale.times.at_least(fused=True, overlap=True), 3)


def time_lines(scale: Scale) -> Iterator[str]:
    """The bounds of one job in sentences, or the figures that are missing for them."""
    if scale.times is None:
        yield f"No times: {', '.join(scale.missing)} missing in {scale.source}."
        return
    for title, fused in (("eager", False), ("fused", True)):
        seconds = [scale.times.at_least(fused=fused, overlap=overlap) for overlap in (True, False)]
        rates = [scale.samples / bound for bound in seconds]
        yield (
            f"{title}: at most {number(rates[0])} samples/s, a step takes at least {number(1000 * seconds[0], 3)} ms; "
            f"without overlap of communication at most {number(rates[1])} samples/s; "
            f"MFU at most {percent(scale.mfu(fused=fused))}"
        )
    yield f"The figures of the product are from {scale.source}. MFU counts the operations of the traced step."


def schedule_lines(schedule: Schedule | None) -> Iterator[str]:
    """The least time of the whole schedule, against the week that FlagPerf allows a case."""
    if schedule is None or schedule.seconds is None:
        return
    begin = f"The whole schedule ({schedule.limit}: {schedule.steps:,} steps) takes at least {age(schedule.seconds)}"
    if schedule.within_a_week:
        yield f"{begin}; FlagPerf allows a case a week."
    else:
        yield f"{begin}: longer than the week that FlagPerf allows a case."


def age(seconds: float) -> str:
    """A time in the unit that people use for it: "48 min", "9.3 h", "12 days"."""
    for unit, size, most in (("min", 60, 90 * 60), ("h", 3600, 72 * 3600)):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / (24 * 3600):,.3g} days" if seconds < 1e7 else f"{seconds / (24 * 3600):,.0f} days"


def measured_lines(scale: Scale, measured: Sequence[Measured]) -> Iterator[str]:
    """What each run reached; beside the bounds where the run has the nodes and the mesh of the prediction."""
    for run in measured:
        text = f"measured on {run.nnodes} x {run.nproc} devices: {number(run.rate)} samples/s"
        alike = (run.nnodes, run.nproc, run.mesh) == (scale.nnodes, scale.nproc, scale.mesh)
        rates = [scale.rate(fused=fused) for fused in (False, True)]
        if alike and None not in rates:
            eager, fused = (percent(run.rate / rate) for rate in rates if rate)
            text += f", {eager} of the eager bound, {fused} of the fused bound"
        yield text


def class_rows(classes: Sequence[ClassTime]) -> list[dict[str, str]]:
    """The operator classes of a step, the longest first."""
    total = sum(time.seconds for time in classes)
    return [
        {
            "operators": time.operator_class,
            "at least [ms]": number(1000 * time.seconds, 3),
            "share": percent(time.seconds / total),
            "limited by": time.limited_by,
        }
        for time in classes
    ]


def message_rows(scale: Scale) -> list[dict[str, str]]:
    """What a rank sends in a step, a line a kind and group."""
    return [
        {
            "collective": message.kind,
            "along": message.side,
            "ranks": str(message.group),
            "type": message.dtype,
            "phase": message.phase,
            "calls": str(message.calls),
            "GiB": number(message.bytes / 2**30, 3),
        }
        for message in scale.messages
    ]


def conclusions(scales: Sequence[Scale]) -> Iterator[str]:
    """The smallest number of devices that fits, and the fastest predicted mesh."""
    if (least := smallest(scales)) is None:
        yield "No scale fits."
        return
    yield f"The fewest devices that fit: {least.devices} ({least.nnodes}x{least.nproc}, {_sides(least)})."
    for devices in sorted({scale.devices for scale in scales}):
        if best := fastest(scale for scale in scales if scale.devices == devices):
            rate = f", at most {number(best.rate())} samples/s" if best.rate() else ""
            yield f"The fastest predicted mesh of {devices} devices: {_sides(best)}{rate}."


def _sides(scale: Scale) -> str:
    return ", ".join(f"{side}={size}" for side, size in scale.mesh.shown.items())


def scale_charts(scales: Sequence[Scale], measured: Sequence[Measured]) -> list[Chart]:
    """Throughput and efficiency over devices, a curve for each tp; `measured`: runs, each of them a point."""
    tps = sorted({scale.mesh.tp for scale in scales})
    rates: dict[str, list[Point]] = {f"at most, tp={tp}": [] for tp in tps}
    shares: dict[str, list[Point]] = {f"tp={tp}": [] for tp in tps}
    for scale in sorted(scales, key=lambda scale: scale.devices):
        rate, share = scale.rate(), efficiency(scale, scales)
        if rate is not None and share is not None:
            rates[f"at most, tp={scale.mesh.tp}"].append([float(scale.devices), rate])
            shares[f"tp={scale.mesh.tp}"].append([float(scale.devices), 100 * share])
    points: list[Point] = [[float(run.devices), run.rate] for run in measured]
    charts = [
        lines("Predicted throughput", "devices", "samples/s", {**rates, "measured": points}, zero=True, dots=True),
        lines("Predicted efficiency", "devices", "% of the fewest nodes", shares, zero=True, dots=True),
    ]
    return [chart for chart in charts if chart]


def prediction_page(name: str, scales: Sequence[Scale], measured: Sequence[Measured] = ()) -> str:
    """The scales as an HTML page: tables and plots.

    Args:
        name: the case and the product.
        measured: runs of the same case, in the plot and in the table.
    """
    sending = [scale for scale in scales if scale.messages]
    return render(
        "prediction.html.j2",
        {ELEMENT: scale_charts(scales, measured)},
        name=name,
        conclusions=list(conclusions(scales)),
        scales=grid(scale_rows(scales, measured)),
        steps=[(f"{scale.nnodes}x{scale.nproc}, {_sides(scale)}", grid(message_rows(scale))) for scale in sending],
        place=ELEMENT,
        note=NOTE,
    )
