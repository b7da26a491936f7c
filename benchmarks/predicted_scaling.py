"""Predicted scaling of llama3_8b on the H100, as a table and a plot in docs/predict.md.

    python benchmarks/predicted_scaling.py

One sequence for each data rank, whatever the number of ranks (weak scaling).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from predict_page import PAGE, write_table
from predicted_published import GIB, traced

from flagperf.config.compose import compose
from flagperf.predict.scaling import Scale, scale_of
from flagperf.predict.times import figures_of
from flagperf.report.markdown import table
from flagperf.report.prediction import scale_rows

NODES = (1, 16, 128, 512)
PLOT = PAGE.with_name("predict-scaling.svg")
COLUMNS = ("memory [GiB]", "fits")  # of `flagperf predict`, which adds the margin
WEAK = ("global_batch_size=null", "gradient_accumulation_steps=1", "division=open", "size=full", "dry_run=true")
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 300, 70, 50


def scales() -> Iterator[Scale]:
    """Each number of nodes, traced."""
    words = ("model=llama3_8b", "vendor=nvidia", "hardware=H100", "nproc=8", *WEAK)
    configs = [compose([*words, f"nnodes={nnodes}"]).config for nnodes in NODES]
    for config, (trace, reason) in zip(configs, traced(configs), strict=True):
        if trace is None:
            raise SystemExit(reason)
        yield scale_of(trace, config, figures_of(config), trace.memory.total / GIB)


def plot(found: Sequence[Scale]) -> str:
    """Throughput of a device over the devices, with and without overlap, as SVG; the x axis is logarithmic."""
    curves = {
        "overlap": [(scale.rate(overlap=True) or 0.0) / scale.devices for scale in found],
        "no overlap": [(scale.rate(overlap=False) or 0.0) / scale.devices for scale in found],
    }
    most = 1.1 * max(map(max, curves.values()))
    xs = [LEFT + place * (WIDTH - LEFT - 120) / (len(found) - 1) for place in range(len(found))]

    def height(rate: float) -> float:
        return (HEIGHT - BOTTOM) * (1 - rate / most) + 10

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">']
    lines += ["<style>text{font-size:13px;fill:#666}path{fill:none;stroke-width:2}</style>"]
    for level in (0.0, 0.5, 1.0, 1.5):
        if level < most:
            y = height(level)
            lines += [f'<path d="M{LEFT} {y:.0f}H{WIDTH - 110}" stroke="#8884"/>']
            lines += [f'<text x="{LEFT - 34}" y="{y + 4:.0f}">{level:g}</text>']
    for x, scale in zip(xs, found, strict=True):
        lines += [f'<text x="{x:.0f}" y="{HEIGHT - 22}" text-anchor="middle">{scale.devices}</text>']
    for colour, (name, rates) in zip(("#2a78d6", "#e07b39"), curves.items(), strict=True):
        points = " ".join(f"{x:.0f},{height(rate):.1f}" for x, rate in zip(xs, rates, strict=True))
        lines += [f'<path d="M{points.replace(" ", "L")}" stroke="{colour}"/>']
        lines += [f'<text x="{xs[-1] + 10:.0f}" y="{height(rates[-1]) + 4:.0f}">{name}</text>']
    lines += [f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">devices</text>']
    lines += ['<text transform="translate(16 200) rotate(-90)">samples/s of a device, at most</text>', "</svg>", ""]
    return "\n".join(lines)


def write(found: Sequence[Scale]) -> None:
    """Write the plot, and the table into the page."""
    rows = [{name: text for name, text in row.items() if name not in COLUMNS} for row in scale_rows(found)]
    write_table("predicted_scaling", table(rows))
    PLOT.write_text(plot(found), encoding="utf-8")


if __name__ == "__main__":
    write(list(scales()))
