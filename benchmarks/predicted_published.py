"""What `flagperf predict` computes of FlagPerf's cases on the A100, beside what FlagPerf publishes (conf/published/).

    python benchmarks/predicted_published.py [CASE ...]

Memory: the margin is calibrated on every second row of the cases whose batches all have the same shapes, and applied to
all rows. Throughput: p_core beside the bound of the traced step. Without CASE: all cases, and the table is written into
docs/predict.md, between its two comments.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from predict_page import write_table

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.contract.trace import Trace, from_json
from flagperf.predict.memory import Margin
from flagperf.predict.times import figures_of, job_times

GIB = 2**30
GOAL = 0.15
PARTS_OF_SAMPLES = ("mel frames/s", "tokens/s")  # units; the bound is in samples


@dataclass(frozen=True)
class Row:
    """A published row, and the trace of its configuration."""

    case: str
    scale: str
    precision: str
    batch: int
    published: Mapping[str, Any]
    config: Mapping[str, Any]
    trace: Trace | None
    reason: str  # why there is no trace

    @property
    def held(self) -> float | None:
        """GiB of tensors at the peak."""
        return None if self.trace is None else self.trace.memory.total / GIB

    @property
    def one_shape(self) -> bool:
        """Whether all batches of the training have the shapes of the traced batch."""
        return self.trace is not None and self.trace.case.how == "shapes"

    @property
    def rates(self) -> tuple[float, float] | None:
        """Samples/s of the job at most: eager and fused, communication beside computation."""
        if self.trace is None or self.config["throughput_unit"] in PARTS_OF_SAMPLES:
            return None
        times = job_times(self.trace, self.config, figures_of(self.config))
        if times is None:
            return None
        eager, fused = (times.at_least(fused=fused, overlap=True) for fused in (False, True))
        return times.samples / eager, times.samples / fused


def configurations(cases: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Each published row of the cases, and its configuration."""
    for path in sorted((CONF / "published").glob("*.yaml")):
        if cases and path.stem not in cases:
            continue
        for published in yaml.safe_load(path.read_text(encoding="utf-8"))["results"]:
            _, nnodes, nproc = published["config"].split("x")
            said = [f"{key}={published[key]}" for key in ("train_batch_size",) if key in published]
            overrides = [f"model={path.stem}", "vendor=nvidia", "hardware=A100", f"nnodes={nnodes}", f"nproc={nproc}"]
            overrides += [f"precision={published['precision']}", "division=open", "size=full", "dry_run=true", *said]
            yield published, dict(compose(overrides).config)


def traced(configs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Trace | None, str]]:
    """The trace of each configuration, made by a process as the ranks are; or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.yaml") for number in range(len(configs))]
        for path, config in zip(paths, configs, strict=True):
            path.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        command = [sys.executable, "-m", "flagperf.trainer.pytorch.trace", *map(str, paths)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    answer = json.loads(line)
                    known = "trace" in answer
                    trace = from_json(json.dumps(answer["trace"]), "the trace program") if known else None
                    yield trace, answer.get("reason", "")


def rows(cases: Sequence[str]) -> Iterator[Row]:
    """All rows, each traced."""
    all_configurations = list(configurations(cases))
    answers = traced([config for _, config in all_configurations])
    for (published, config), (trace, reason) in zip(all_configurations, answers, strict=True):
        scale, batch = published["config"].removeprefix("A100x"), config["train_batch_size"]
        row = Row(config["case"], scale, published["precision"], batch, published, config, trace, reason)
        print(row.case, row.scale, row.precision, row.batch, row.held, row.rates, reason, flush=True)
        yield row


def calibration(pairs: Sequence[tuple[float, float]]) -> Margin:
    """The margin with the least squares of relative errors, from GiB of tensors and published GiB."""
    weights = [1 / published**2 for _, published in pairs]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, pairs, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, pairs, strict=True)) / total
    above = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, pairs, strict=True))
    below = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, pairs, strict=True))
    return Margin(above / below, mean_y - above / below * mean_x, "published figures")


def table(all_rows: Sequence[Row]) -> str:
    """The table, and what it says in sentences."""
    known = [row for row in all_rows if row.held and "memory" in row.published]
    alike, mixed = ([row for row in known if row.one_shape is wanted] for wanted in (True, False))
    margin = calibration([(row.held or 0.0, float(row.published["memory"])) for row in alike[::2]])

    def within(some: Sequence[Row]) -> str:
        return f"{sum(abs(_off(row, margin) or 0.0) <= GOAL for row in some)} of the {len(some)}"

    lines = [
        "| case | scale | precision | batch | tensors [GiB] | predicted [GiB] | published [GiB] | difference "
        "| at most, eager | at most, fused | published p_core | of eager |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(_line(row, margin) for row in all_rows),
    ]
    above = [row for row in all_rows if row.rates and row.published.get("p_core", 0) > row.rates[1]]
    sentences = (
        "Calibrated on every second row of cases whose batches all have the same shapes: predicted = "
        f"{margin.factor:.3g} x tensors + {margin.constant_gib:.3g} GiB. Within {GOAL:.0%}: {within(alike[1::2])} "
        f"other rows of these cases, {within(alike)} rows of these cases, {within(mixed)} rows of cases whose batches "
        f"have many shapes. {len(above)} published p_core lie above the fused bound."
    )
    untraced = {row.case: row.reason for row in all_rows if row.trace is None}
    reasons = "".join(f"\n- {case}: {reason}" for case, reason in untraced.items())
    return "\n".join(lines) + "\n\n" + sentences + (f"\n\nNot traced:\n{reasons}" if reasons else "")


def _predicted(row: Row, margin: Margin) -> float | None:
    return None if row.held is None else margin.needed(row.held)


def _off(row: Row, margin: Margin) -> float | None:
    """Predicted over published memory, less 1."""
    predicted, published = _predicted(row, margin), row.published.get("memory")
    return None if predicted is None or published is None else predicted / published - 1


def _line(row: Row, margin: Margin) -> str:
    published, predicted, off = row.published.get("memory"), _predicted(row, margin), _off(row, margin)
    core = row.published.get("p_core")
    eager, fused = row.rates or (None, None)
    cells = [row.case, row.scale, row.precision, str(row.batch), _text(row.held), _text(predicted), _text(published)]
    cells += ["–" if off is None else f"{off:+.0%}" + (" **" if abs(off) > GOAL else ""), _text(eager), _text(fused)]
    cells += [_text(core), "–" if core is None or eager is None else f"{core / eager:.0%}"]
    return "| " + " | ".join(cells) + " |"


def _text(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"


def main(cases: Sequence[str]) -> None:
    """Print the table; of all cases also write it into the page."""
    text = table(list(rows(cases)))
    print(text)
    if not cases:
        write_table("predicted_published", text)


if __name__ == "__main__":
    main(sys.argv[1:])
