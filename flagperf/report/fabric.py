"""The curves of probe=fabric as tables, plots and a page."""

from __future__ import annotations

from collections.abc import Sequence

from flagperf.contract.fabric import COLLECTIVES, KIB, Curve
from flagperf.report.cells import ABSENT, number
from flagperf.report.page import grid, render
from flagperf.report.plots import Chart, lines
from flagperf.results.fabric import duration

ELEMENT = "fabric"  # the element of the plots
NOTE = (
    "Bandwidths as nccl-tests define them: algorithm bandwidth = size / time; bus bandwidth = algorithm bandwidth x "
    "2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the others. "
    "Latency: time of the smallest message. alpha and beta: time = alpha + size / beta, fitted."
)


def title_of(kind: str) -> str:
    """all_reduce → all-reduce; host_to_device → host to device."""
    return kind.replace("_", "-" if kind in COLLECTIVES else " ").replace("send-recv", "send/recv")


def size_text(size: int) -> str:
    """Bytes of a message with a unit: 4 KiB."""
    unit, factor = next((pair for pair in (("GiB", KIB**3), ("MiB", KIB**2)) if size >= pair[1]), ("KiB", KIB))
    return f"{size / factor:.4g} {unit}"


def curve_rows(curves: Sequence[Curve]) -> list[dict[str, str]]:
    """A row for each collective and kind of group: its latency, largest bandwidths and fitted line."""
    return [_curve_row(curve) for curve in curves]


def _curve_row(curve: Curve) -> dict[str, str]:
    row = {"group": curve.group, "ranks": str(curve.ranks), "collective": title_of(curve.kind)}
    line = curve.line
    last = len(curve.sizes) - 1
    return {
        **row,
        "latency": duration(curve.seconds[0]) if curve.sizes else ABSENT,
        "size": size_text(curve.sizes[last]) if curve.sizes else ABSENT,
        "algorithm bandwidth [GB/s]": number(curve.algorithm_bandwidths[last] / 1e9) if curve.sizes else ABSENT,
        "bus bandwidth [GB/s]": number(curve.bus_bandwidths[last] / 1e9) if curve.sizes else ABSENT,
        "alpha": duration(line.alpha) if line else ABSENT,
        "beta [GB/s]": number(line.beta / 1e9) if line else ABSENT,
    }


def reason_lines(curves: Sequence[Curve]) -> list[str]:
    """What was not measured, and why."""
    named: dict[tuple[str, str], list[str]] = {}
    for curve in curves:
        if curve.reason:
            named.setdefault((title_of(curve.kind), curve.reason), []).append(curve.group)
    return [f"{kind} ({'; '.join(groups)}): {reason}" for (kind, reason), groups in named.items()]


def point_rows(curves: Sequence[Curve]) -> list[dict[str, str]]:
    """A row for each size of each curve."""
    return [
        {
            "group": curve.group,
            "collective": title_of(curve.kind),
            "size": size_text(size),
            "time [us]": number(1e6 * seconds),
            "algorithm bandwidth [GB/s]": number(algorithm / 1e9),
            "bus bandwidth [GB/s]": number(bus / 1e9),
        }
        for curve in curves
        for size, seconds, algorithm, bus in zip(
            curve.sizes, curve.seconds, curve.algorithm_bandwidths, curve.bus_bandwidths, strict=True
        )
    ]


def curve_charts(curves: Sequence[Curve]) -> list[Chart]:
    """Bus bandwidth and time over the size, a plot for each kind of group. The x axis has equal steps of the sizes."""
    charts = []
    for group in dict.fromkeys(curve.group for curve in curves):
        of_group = [curve for curve in curves if curve.group == group]
        longest = max(of_group, key=lambda curve: len(curve.sizes)).sizes
        labels = [[index, size_text(size)] for index, size in enumerate(longest)]
        named = f"{group} ({of_group[0].ranks} ranks)" if of_group[0].ranks > 1 else "copies of each device"
        figures = {
            ("Bus bandwidth", "GB/s"): {curve: [value / 1e9 for value in curve.bus_bandwidths] for curve in of_group},
            ("Time", "ms"): {curve: [1e3 * value for value in curve.seconds] for curve in of_group},
        }
        for (title, unit), values in figures.items():
            series = {
                title_of(curve.kind): [[float(index), value] for index, value in enumerate(values[curve])]
                for curve in of_group
            }
            chart = lines(f"{title}: {named}", "size of the message", unit, series, zero=True, dots=True, labels=labels)
            charts.append(chart)
    return [chart for chart in charts if chart]


def fabric_page(job: str, curves: Sequence[Curve], search_lines: Sequence[str]) -> str:
    """report.html of probe=fabric.

    Args:
        job: its name.
        search_lines: sentences of the search for slow links.
    """
    return render(
        "probe.html.j2",
        {ELEMENT: curve_charts(curves)},
        name=job,
        found=[*search_lines, *reason_lines(curves)],
        tables=[("Links", grid(curve_rows(curves))), ("All sizes", grid(point_rows(curves)))],
        place=ELEMENT,
        note=NOTE,
    )
