"""What `flagperf predict` computes of runs on accelerators, beside what these runs measured.

    python benchmarks/predicted_runs.py RUN_FOLDER [RUN_FOLDER ...]

Prints a line for each job that has rounds which count, and writes the table into docs/predict.md, between its two
comments. `allocated` and `reserved` are the peaks of the device's allocator, of the rank that held most. Throughput is
steady_throughput in samples/s, beside the bounds by the data sheet: short runs are compared, too. The trace is that of
the run, else one that is made now.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from predict_page import write_table
from predicted_published import traced

from flagperf.contract.records import Result, Summary
from flagperf.contract.trace import Trace
from flagperf.predict.memory import Fit
from flagperf.predict.scaling import scale_of
from flagperf.predict.times import figures_of
from flagperf.report.cells import number, percent
from flagperf.report.files import read_run
from flagperf.report.markdown import table
from flagperf.results.achievable import trace_of
from flagperf.results.summary import usable


def rows(run: Path) -> Iterator[dict[str, str]]:
    """A line for each job of a run; jobs without a trace or a round that counts are named on the terminal."""
    for summary in read_run(run):
        if not (results := usable(summary.results)):
            print(f"{run.name}, {summary.name}: no round counts", file=sys.stderr)
            continue
        trace, reason = _trace(run, summary)
        if trace is None:
            print(f"{run.name}, {summary.name}: not traced: {reason}", file=sys.stderr)
            continue
        fit = Fit.of(trace, summary.config)
        yield {**_what(summary, trace), **_memory(fit, results), **_throughput(summary, trace, fit, results)}


def _trace(run: Path, summary: Summary) -> tuple[Trace | None, str]:
    """The trace that the run kept, else a new one; or why there is none."""
    if trace := trace_of(run / summary.name):
        return trace, ""
    ((trace, reason),) = traced([summary.config])
    return trace, reason


def _what(summary: Summary, trace: Trace) -> dict[str, str]:
    config, case = summary.config, trace.case
    batch = str(case.batch_size) + (f" x {case.micro_steps}" if case.micro_steps > 1 else "")
    changed = [key for key in ("activation_checkpointing", "compile") if config.get(key)]
    words = [f"{config['hardware']['name']}, {config['nnodes']}x{config['nproc']}", case.precision, *changed]
    return {"case": f"{case.case}, {case.size}", "on": ", ".join(words), "batch": batch}


def _memory(fit: Fit, results: Sequence[Result]) -> dict[str, str]:
    on_device = [result.values for result in results if result.values.get("peak_memory_kind") == "device"]
    ranks = [rank for values in on_device for rank in values["ranks"]]
    reserved, allocated = (_most(ranks, name) for name in ("peak_memory", "peak_allocated"))
    return {
        "tensors [GiB]": number(fit.tensors, 3),
        "allocated": number(allocated, 3),
        "tensors / allocated": _ratio(fit.tensors, allocated),
        "needed [GiB]": number(fit.needed, 3),
        "reserved": number(reserved, 3),
        "needed / reserved": _ratio(fit.needed, reserved),
    }


def _most(ranks: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return max((rank[name] for rank in ranks if rank.get(name) is not None), default=None)


def _samples_per_second(values: Mapping[str, Any]) -> float | None:
    steady, samples, units = (
        values.get(name) for name in ("steady_throughput", "num_trained_samples", "num_trained_units")
    )
    return None if steady is None else float(steady) * samples / units


def _ratio(figure: float | None, other: float | None) -> str:
    return percent(figure / other if figure and other else None)


def _throughput(summary: Summary, trace: Trace, fit: Fit, results: Sequence[Result]) -> dict[str, str]:
    scale = scale_of(trace, summary.config, figures_of(summary.config), fit.needed, fit.memory)
    rates = [rate for result in results if (rate := _samples_per_second(result.values)) is not None]
    measured = fmean(rates) if rates else None
    eager, fused = (scale.rate(fused=fused) for fused in (False, True))
    return {
        "at most, eager": number(eager),
        "at most, fused": number(fused),
        "measured samples/s": number(measured),
        "of eager": _ratio(measured, eager),
    }


def main(folders: Sequence[str]) -> None:
    """Print each line when it is known, and write the table into the page."""
    lines = []
    for row in (row for folder in folders for row in rows(Path(folder))):
        lines.append(row)
        print(row, flush=True)
    if lines:
        write_table("predicted_runs", table(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
