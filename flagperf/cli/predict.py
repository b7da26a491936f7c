"""flagperf predict: memory and time of a training before it runs

usage: flagperf predict [OVERRIDES…] [-m] [probe=FILE] [measured=FOLDER] [json=FILE] [html=FILE] [operators=FILE]

One optimizer step of the case is traced without a device, on this machine. docs/predict.md explains the figures.

words:
  OVERRIDES  the case and the product, as in flagperf run: model=NAME vendor=NAME hardware=NAME nnodes=N nproc=N,
             and settings of the case, such as train_batch_size=N: flagperf list CASE
             with nnodes and without nproc, a node has the devices_per_node of the product
             parallel=auto chooses the fastest mesh that fits
  probe=FILE use the figures in the probe.json of probe=alone (devices) or probe=fabric (links); both may be given
  measured=FOLDER  show the throughput of a run of the same case beside the prediction; may be given several times
  json=FILE  write all figures to a file, too
  operators=FILE  write the operators of the step as a table for probe=operators, a FILE.yaml
  html=FILE  write a page with tables and plots of the scales

options: -m, --config-dir

examples:
  flagperf predict model=llama3_8b vendor=nvidia hardware=H100 nnodes=2 nproc=8
  flagperf predict -m model=resnet50 vendor=nvidia hardware=A100 train_batch_size=64,128,256,512
  flagperf predict -m model=llama3_8b vendor=nvidia hardware=H100 nnodes=1,16,128,512 parallel.mesh.tp=1,8
  flagperf predict model=llama3_8b vendor=nvidia hardware=H100 nnodes=16 parallel=auto
  flagperf predict model=llama3_8b vendor=nvidia hardware=H100 nnodes=16 probe=result/probe20260101-120000/probe.json
  flagperf predict -m model=resnet50 vendor=nvidia hardware=A100 nproc=1,8 measured=result/run20260101-120000

exit codes: 0, 2, 4
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from flagperf.config.compose import compose, compose_jobs
from flagperf.config.parts.batch_size import GLOBAL
from flagperf.config.schema.values import JobConfig
from flagperf.contract.fabric import Curve
from flagperf.contract.hardware import GIB
from flagperf.contract.records import ProbedDevice
from flagperf.contract.regular import write_atomically
from flagperf.contract.trace import KINDS
from flagperf.errors import ConfigError, FlagperfError, NoValidCaseError
from flagperf.predict.memory import Fit, Margin
from flagperf.predict.operator_table import operator_table
from flagperf.predict.scaling import Scale, scale_of
from flagperf.predict.schedule import schedule_of
from flagperf.predict.times import figures_of
from flagperf.report.files import read_jobs
from flagperf.report.measured_scales import Measured, measured_scales
from flagperf.report.prediction import (
    NOTE,
    class_rows,
    conclusions,
    measured_lines,
    message_rows,
    prediction_page,
    scale_rows,
    schedule_lines,
    time_lines,
)
from flagperf.results.fabric import read_probe
from flagperf.results.json_record import write_json
from flagperf.run.auto_mesh import with_mesh
from flagperf.run.command_file import key_of
from flagperf.run.console import print_rows, print_unfolded
from flagperf.run.predicted import Effect, Prediction, predict
from flagperf.run.ways_to_fit import PER_RANK, changes_of, ways_to_fit

FILES = ("json", "html", "probe", "operators", "measured")  # words with a file or folder
PRODUCT = ("model", "vendor", "hardware")


def main(options: argparse.Namespace) -> int:
    """Predict each job, and print one job in full or several as a table."""
    given = {name: [Path(word.partition("=")[2]) for word in _words(options, name)] for name in FILES}
    overrides = [word for word in options.arguments if word.partition("=")[0] not in FILES]
    probes = [read_probe(path) for path in given["probe"]]
    jobs = _jobs(overrides, options)
    if not jobs:
        raise NoValidCaseError("no case is left to predict")
    if given["operators"] and len(jobs) > 1:
        raise ConfigError(
            "a table has the operators of one job",
            where="command line",
            key="operators",
            given=f"{len(jobs)} jobs",
            allowed="one job",
            advice="give one value of each key, without -m",
        )
    measured = _measured(given["measured"], jobs[0])
    predictions = predict(jobs, changes_of(jobs[0]) if len(jobs) == 1 else [])
    if len(jobs) > 1:
        print_several(jobs, predictions)
    elif isinstance(predictions[0], FlagperfError):
        raise predictions[0]
    else:
        print_single(predictions[0])
    scales = [_scale(prediction, probes) for prediction in predictions if isinstance(prediction, Prediction)]
    print_times(scales, measured)
    if len(scales) == 1:
        for line in schedule_lines(schedule_of(jobs[0].config, scales[0])):
            print(line)
    for file in given["html"]:
        name = f"{jobs[0].case} on {jobs[0].hardware.name}"
        print(write_atomically(file, prediction_page(name, scales, measured)))
    for file in given["operators"]:
        print(_write_table(file, predictions[0]))
    for file in given["json"]:
        records = [as_record(job, prediction) for job, prediction in zip(jobs, predictions, strict=True)]
        print(write_json({"jobs": records}, file))
    return 0


def _words(options: argparse.Namespace, name: str) -> list[str]:
    """The words of the command line that give a value to a name."""
    return [word for word in options.arguments if word.startswith(f"{name}=")]


def _measured(folders: Sequence[Path], job: JobConfig) -> list[Measured]:
    """The throughputs of runs, which must be of the job's case."""
    summaries = [summary for folder in folders for summary in read_jobs(folder)]
    return measured_scales(summaries, job.config) if folders else []


def _write_table(file: Path, prediction: Prediction | FlagperfError) -> Path:
    """Write the operators of the only job as a table."""
    assert isinstance(prediction, Prediction)
    folder = file.parent.parent if file.parent.name == "operators" else file.parent
    command = f"flagperf --config-dir {folder} run probe=operators operators.table={file.stem}"
    return write_atomically(file, operator_table(prediction.trace, command))


def _jobs(overrides: Sequence[str], options: argparse.Namespace) -> Sequence[JobConfig]:
    """The jobs. Where the samples of a step do not divide by the ranks, each data rank has a batch of its own."""
    dry = [*overrides, *_devices_of_a_node(overrides, options), "dry_run=true"]
    dry = with_mesh(dry, multirun=options.multirun, config_dirs=options.config_dir, say=print)
    try:
        return compose_jobs(dry, multirun=options.multirun, config_dirs=options.config_dir)
    except ConfigError as error:
        if error.key != GLOBAL or not options.multirun:
            raise
    per_rank = Effect(PER_RANK, None).words
    print(f"{GLOBAL} does not divide by all numbers of ranks. So each data rank has one batch in a step: {per_rank}")
    return compose_jobs([*dry, *per_rank.split()], multirun=True, config_dirs=options.config_dir)


def _devices_of_a_node(overrides: Sequence[str], options: argparse.Namespace) -> list[str]:
    """The override nproc, where the command line has nodes, no nproc, and one product whose nodes are known."""
    keys = {key_of(word) for word in overrides}
    product = [word for word in overrides if key_of(word) in PRODUCT]
    if "nnodes" not in keys or "nproc" in keys or any("," in word for word in product):
        return []
    devices = compose([*product, "dry_run=true"], options.config_dir).hardware.devices_per_node
    if devices is None:
        return []
    print(f"nproc={devices}: the devices_per_node of the product")
    return [f"nproc={devices}"]


def _scale(prediction: Prediction, probes: Sequence[tuple[Sequence[ProbedDevice], Sequence[Curve]]]) -> Scale:
    """The times of a prediction. `probes`: measured devices and links, in place of the data sheet's."""
    config, fit = prediction.job.config, prediction.fit
    devices = [device for measured, _ in probes for device in measured]
    curves = [curve for _, measured in probes for curve in measured]
    return scale_of(prediction.trace, config, figures_of(config, devices, curves), fit.needed, fit.memory)


def print_times(scales: Sequence[Scale], measured: Sequence[Measured] = ()) -> None:
    """Print the times and messages of one job, or a table of several; and the throughputs of runs."""
    if len(scales) == 1:
        (scale,) = scales
        for line in time_lines(scale):
            print(line)
        print_rows(class_rows(scale.times.classes(fused=False)) if scale.times else [])
        print_rows(message_rows(scale))
        for line in measured_lines(scale, measured):
            print(line)
    elif scales:
        print_rows(scale_rows(scales, measured))
        for line in [*conclusions(scales), NOTE]:
            print(line)


def print_single(prediction: Prediction) -> None:
    """Print the memory of one job by kind, what fits, and what changes would do."""
    job, memory, fit = prediction.job, prediction.trace.memory, prediction.fit
    print(f"{job.name} on {job.nnodes} x {job.nproc} {job.hardware.name}: memory of one device")
    table = Table(show_header=False, box=None, pad_edge=False)
    for kind in KINDS:
        table.add_row(f"  {kind}", f"{getattr(memory, kind) / GIB:.2f} GiB")
    margin = Margin.of(job.config)
    rule = f"= {margin.factor:g} x tensors + {margin.constant_gib:g} GiB, from {margin.source}"
    table.add_row("  tensors at the peak", f"{fit.tensors:.2f} GiB")
    table.add_row("  with the margin", f"{fit.needed:.2f} GiB", rule)
    print_unfolded(table)
    print(f"peak: {memory.phase}, {'the module ' + memory.module if memory.module else 'the network itself'}")
    print(verdict(fit, job))
    if prediction.largest is not None:
        micro_steps = f" with {steps} micro steps" if (steps := prediction.trace.case.micro_steps) > 1 else ""
        print(f"largest train_batch_size that fits{micro_steps}: {prediction.largest} (now {job.train_batch_size})")
    for effect in [*prediction.effects, *_more_ways(prediction)]:
        print(f"with {effect.words}: {_result(effect)}")
    trace = prediction.trace
    print(f"operations of a step: {trace.operations / 1e12:.4g} TFLOP; samples of a step: {trace.samples}")
    for note in trace.notes:
        print(f"note: {note}")


def _more_ways(prediction: Prediction) -> list[Effect]:
    """Changes with which a job fits that does not fit by one of the shown effects."""
    fits = [fit.verdict == "fits" for fit in (prediction.fit, *(effect.fit for effect in prediction.effects)) if fit]
    return [] if prediction.fit.verdict is None or any(fits) else ways_to_fit(prediction.job)


def _result(effect: Effect) -> str:
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


def print_several(jobs: Sequence[JobConfig], predictions: Sequence[Prediction | FlagperfError]) -> None:
    """Print a row for each job."""
    print_rows(list(_rows(jobs, predictions)))


def _rows(jobs: Sequence[JobConfig], predictions: Sequence[Prediction | FlagperfError]) -> Iterator[dict[str, str]]:
    several_tunings = len({job.tuning for job in jobs}) > 1
    for job, prediction in zip(jobs, predictions, strict=True):
        tuning = {"tuning": job.tuning or "none"} if several_tunings else {}
        begin = {"job": job.name, **job.sweep, **tuning}
        if isinstance(prediction, FlagperfError):
            yield {**begin, "tensors (GiB)": "", "needed (GiB)": "", "verdict": str(prediction), "largest batch": ""}
            continue
        fit = prediction.fit
        yield {
            **begin,
            "tensors (GiB)": f"{fit.tensors:.2f}",
            "needed (GiB)": f"{fit.needed:.2f}",
            "verdict": fit.verdict or "memory unknown",
            "largest batch": "" if prediction.largest is None else str(prediction.largest),
        }


def as_record(job: JobConfig, prediction: Prediction | FlagperfError) -> dict[str, Any]:
    """The figures of a job as plain data."""
    begin = {"job": job.name, "sweep": dict(job.sweep)}
    if isinstance(prediction, FlagperfError):
        return {**begin, "reason": str(prediction)}
    trace, fit = prediction.trace, prediction.fit
    effects = [
        {"change": dict(effect.change), "fit": effect.fit and asdict(effect.fit), "reason": effect.reason}
        for effect in prediction.effects
    ]
    memory = {**asdict(trace.memory), **asdict(fit), "verdict": fit.verdict}
    return {**begin, "memory": memory, "largest_batch": prediction.largest, "effects": effects, "trace": asdict(trace)}
