"""flagperf predict: memory and time of a training before it runs

usage: flagperf predict [OVERRIDES…] [-m] [json=FILE] [html=FILE]

One optimizer step of the case is traced without a device, on this machine. docs/predict.md explains the figures.

words:
  OVERRIDES  the case and the product, as in flagperf run: model=NAME vendor=NAME hardware=NAME nnodes=N nproc=N,
             and settings of the case, such as train_batch_size=N: flagperf list CASE
  json=FILE  write all figures to a file, too
  html=FILE  write a page with tables and plots of the scales

options: -m, --config-dir

examples:
  flagperf predict model=llama3_8b vendor=nvidia hardware=H100 nnodes=2 nproc=8
  flagperf predict -m model=resnet50 vendor=nvidia hardware=A100 train_batch_size=64,128,256,512
  flagperf predict -m model=llama3_8b vendor=nvidia hardware=H100 nnodes=1,16,128,512 html=scales.html

exit codes: 0, 2, 4
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from flagperf.config.compose import compose_jobs
from flagperf.config.parts.batch_size import GLOBAL
from flagperf.config.schema.values import JobConfig
from flagperf.contract.hardware import GIB
from flagperf.contract.regular import write_atomically
from flagperf.contract.trace import KINDS
from flagperf.errors import ConfigError, FlagperfError, NoValidCaseError
from flagperf.predict.memory import Fit, Margin
from flagperf.predict.scaling import Scale, scale_of
from flagperf.predict.times import figures_of
from flagperf.report.prediction import class_rows, conclusions, message_rows, prediction_page, scale_rows, time_lines
from flagperf.results.json_record import write_json
from flagperf.run.console import print_unfolded
from flagperf.run.predicted import Effect, Prediction, predict
from flagperf.run.ways_to_fit import changes_of

JSON, HTML = "json=", "html="
WEAK = ("global_batch_size=null", "gradient_accumulation_steps=1", "division=open")  # a batch for each data rank


def main(options: argparse.Namespace) -> int:
    """Predict each job, and print one job in full or several as a table."""
    files = [word.removeprefix(JSON) for word in options.arguments if word.startswith(JSON)]
    pages = [word.removeprefix(HTML) for word in options.arguments if word.startswith(HTML)]
    overrides = [word for word in options.arguments if not word.startswith((JSON, HTML))]
    jobs = _jobs(overrides, options)
    if not jobs:
        raise NoValidCaseError("no case is left to predict")
    found = predict(jobs, changes_of(jobs[0]) if len(jobs) == 1 else [])
    if len(jobs) == 1:
        if isinstance(found[0], FlagperfError):
            raise found[0]
        print_one(found[0])
    else:
        print_several(jobs, found)
    scales = [_scale(one) for one in found if isinstance(one, Prediction)]
    print_times(scales)
    for file in pages:
        name = f"{jobs[0].case} on {jobs[0].hardware.name}"
        print(write_atomically(Path(file), prediction_page(name, scales)))
    for file in files:
        print(write_json({"jobs": [as_record(job, one) for job, one in zip(jobs, found, strict=True)]}, Path(file)))
    return 0


def _jobs(overrides: Sequence[str], options: argparse.Namespace) -> Sequence[JobConfig]:
    """The jobs. Where the samples of a step do not divide by the ranks, each data rank has a batch of its own."""
    dry = [*overrides, "dry_run=true"]
    try:
        return compose_jobs(dry, multirun=options.multirun, config_dirs=options.config_dir)
    except ConfigError as error:
        if error.key != GLOBAL or not options.multirun:
            raise
    print(
        f"{GLOBAL} does not divide by all numbers of ranks. So each data rank has one batch in a step: {' '.join(WEAK)}"
    )
    return compose_jobs([*dry, *WEAK], multirun=True, config_dirs=options.config_dir)


def _scale(one: Prediction) -> Scale:
    """The times of a prediction."""
    return scale_of(one.trace, one.job.config, figures_of(one.job.config), one.fit.needed, one.fit.memory)


def print_times(scales: Sequence[Scale]) -> None:
    """Print the times and messages of one job, or a table of several."""
    if len(scales) == 1:
        (scale,) = scales
        for line in time_lines(scale):
            print(line)
        _print_table(class_rows(scale.times.classes(fused=False)) if scale.times else [])
        _print_table(message_rows(scale))
    elif scales:
        _print_table(scale_rows(scales))
        for line in conclusions(scales):
            print(line)


def _print_table(rows: Sequence[Mapping[str, str]]) -> None:
    table = Table(*(rows[0] if rows else ()), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    if rows:
        print_unfolded(table)


def print_one(found: Prediction) -> None:
    """Print the memory of one job by kind, what fits, and what changes would do."""
    job, memory = found.job, found.trace.memory
    print(f"{job.name} on {job.nnodes} x {job.nproc} {job.hardware.name}: memory of one device")
    table = Table(show_header=False, box=None, pad_edge=False)
    for kind in KINDS:
        table.add_row(f"  {kind}", f"{getattr(memory, kind) / GIB:.2f} GiB")
    table.add_row("  tensors at the peak", f"{found.fit.tensors:.2f} GiB")
    margin = Margin.of(job.config)
    table.add_row("  with the margin", f"{found.fit.needed:.2f} GiB", f"= {margin.factor:g} x tensors + "
                  f"{margin.constant_gib:g} GiB, from {margin.source}")  # fmt: skip
    print_unfolded(table)
    print(f"peak: {memory.phase}, {'the module ' + memory.module if memory.module else 'the network itself'}")
    print(verdict(found.fit, job))
    if found.largest is not None:
        print(f"largest train_batch_size that fits: {found.largest} (now {job.train_batch_size})")
    for effect in found.effects:
        print(f"with {effect.words}: {_said(effect)}")
    print(f"operations of a step: {found.trace.operations / 1e12:.4g} TFLOP; samples of a step: {found.trace.samples}")
    for note in found.trace.notes:
        print(f"note: {note}")


def _said(effect: Effect) -> str:
    """The memory after a change, or why nobody knows."""
    if effect.fit is None:
        return effect.reason
    return f"{effect.fit.needed:.2f} GiB, {effect.fit.verdict or 'memory unknown'}"


def verdict(fit: Fit, job: JobConfig) -> str:
    """Whether a step fits, in a sentence."""
    if fit.memory is None:
        return f"The file of the product {job.hardware.name} has no memory_gib: nobody knows whether the step fits."
    words = {
        "fits": f"The step fits into {fit.memory:g} GiB.",
        "tight": f"The tensors fit into {fit.memory:g} GiB, the margin does not: the step may fail.",
        "does not fit": f"The step does not fit into {fit.memory:g} GiB.",
    }
    return words[fit.verdict or "fits"]


def print_several(jobs: Sequence[JobConfig], found: Sequence[Prediction | FlagperfError]) -> None:
    """Print a row for each job."""
    rows = list(_rows(jobs, found))
    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    print_unfolded(table)


def _rows(jobs: Sequence[JobConfig], found: Sequence[Prediction | FlagperfError]) -> Iterator[dict[str, str]]:
    for job, one in zip(jobs, found, strict=True):
        begin = {"job": job.name, **job.sweep}
        if isinstance(one, FlagperfError):
            yield {**begin, "tensors (GiB)": "", "needed (GiB)": "", "verdict": str(one), "largest batch": ""}
            continue
        largest = "" if one.largest is None else str(one.largest)
        figures = {"tensors (GiB)": f"{one.fit.tensors:.2f}", "needed (GiB)": f"{one.fit.needed:.2f}"}
        yield {**begin, **figures, "verdict": one.fit.verdict or "memory unknown", "largest batch": largest}


def as_record(job: JobConfig, one: Prediction | FlagperfError) -> dict[str, Any]:
    """The figures of a job as plain data."""
    begin = {"job": job.name, "sweep": dict(job.sweep)}
    if isinstance(one, FlagperfError):
        return {**begin, "reason": str(one)}
    effects = [
        {"change": dict(effect.change), "fit": effect.fit and asdict(effect.fit), "reason": effect.reason}
        for effect in one.effects
    ]
    memory = {**asdict(one.trace.memory), **asdict(one.fit), "verdict": one.fit.verdict}
    return {**begin, "memory": memory, "largest_batch": one.largest, "effects": effects, "trace": asdict(one.trace)}
