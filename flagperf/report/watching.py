"""The state of a run that another terminal started, from its files, which grow while the run goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from flagperf.contract.log_lines import Lines
from flagperf.contract.monitor_log import NODE_FIGURES, Device, device_blocks, monitor_logs, node_samples
from flagperf.contract.perflog import parse
from flagperf.contract.regular import read_yaml, regular
from flagperf.errors import ConfigError
from flagperf.plan.values import CONFIG
from flagperf.report.runs import Listed, listed_run
from flagperf.results import result
from flagperf.results.rank_log import RankLog, find_logs, node_folders
from flagperf.results.slow_ranks import sentences, slow_and_late
from flagperf.results.summary import FILE as SUMMARY
from flagperf.run.folder import RUN_LOG, is_awaited, is_held, submitted
from flagperf.run.pace import evaluation_text, step_text
from flagperf.secret import without_logins

TAIL = 1 << 18  # bytes of a log that are read; some thousand events
LOG_LINES = 4  # of the run's log
RANKS = 16  # the last lines of so many ranks are shown
LIMITS = ("max_steps", "max_epochs", "max_samples_termination", "max_time")


def snapshot(run: Path, queue_state: str = "") -> list[str]:
    """The state of the run, line by line.

    Args:
        queue_state: of a run that has not begun, as its scheduler describes it; "": not known.

    Raises:
        ConfigError: the folder holds no run.
    """
    if is_awaited(run):
        return _queued_lines(run, queue_state)
    jobs = sorted(path.parent for path in run.glob(f"*/{CONFIG}"))
    if not (run / RUN_LOG).exists():
        advice = "give a folder such as result/run20260101-120000; flagperf list runs shows them"
        raise ConfigError("no run in this folder", given=run, advice=advice)
    heading = f"{run}: goes on, {datetime.now():%H:%M:%S}" if is_held(run) else f"{run}: has ended, {_end(run)}"
    ended = _readable(_ended(job) for job in listed_run(run) if (run / job.job / SUMMARY).exists())
    current = next((folder for job in jobs if (folder := _current_round(job))), None)
    waiting = [job.name for job in jobs if not (job / SUMMARY).exists() and not (current and job == current.parent)]
    lines = [heading, "", *ended, *(f"{name}: its turn has not come" for name in waiting)]
    return [*lines, *(_readable(_round(current)) if current else ()), "", *_readable(_log_end(run))]


def _readable(lines: Iterable[str]) -> list[str]:
    """The lines. The files of a run may hold anything: where they cannot be read further, the last line says so."""
    shown: list[str] = []
    try:
        shown.extend(lines)
    except OSError as error:
        shown.append(f"  {error.filename or 'a file'} cannot be read: {error.strerror or error}")
    except Exception as error:  # of any kind: content decides which
        shown.append(f"  a file is not as flagperf writes it: {type(error).__name__} {error}")
    return shown


def _end(run: Path) -> str:
    """The last time in the run's log, else the time of the file."""
    lines = _readable(_tail(run / RUN_LOG))
    times = [match[0] for line in lines if (match := re.match(r"[\d-]{10} [\d:]{8}", line))]
    return times[-1] if times else f"{datetime.fromtimestamp((run / RUN_LOG).stat().st_mtime):%Y-%m-%d %H:%M:%S}"


def _queued_lines(run: Path, queue_state: str) -> list[str]:
    """The state of a run that was submitted, and has not begun."""
    job = submitted(run).number
    return [
        f"{run}: has not begun; it is Slurm job {job}",
        f"it {queue_state}" if queue_state else f"its state: squeue --jobs={job}",
        f"end: scancel {job}",
    ]


def _ended(job: Listed) -> str:
    return "  ".join(part for part in (f"{job.job}: {job.verdict}", job.p_train, job.note) if part)


def _current_round(job: Path) -> Path | None:
    """The folder of the round that has begun and has no result yet; None where the job has no such round."""
    if (job / SUMMARY).exists():
        return None
    numbers = [(int(match[1]), path) for path in job.iterdir() if (match := re.fullmatch(r"round(\d+)", path.name))]
    rounds = [path for _, path in sorted(numbers)]
    return rounds[-1] if rounds and not (rounds[-1] / result.FILE).exists() else None


def _round(folder: Path) -> Iterator[str]:
    config = _config(folder.parent)
    yield f"{folder.parent.name}: round {folder.name.removeprefix('round')} of {config.get('repeat', '?')}"
    logs = [(rank, path) for rank, _, _, path in find_logs(folder)]
    for part in (_training(logs, config), _slow_ranks(folder, logs, config), _node_lines(folder), _rank_lines(logs)):
        yield from _readable(part)


def _node_lines(folder: Path) -> Iterator[str]:
    for _, node_rank, node in node_folders(folder):
        if devices := "  ".join(_devices(node)):
            yield f"  node {node_rank}: {devices}"


def _rank_lines(logs: Sequence[tuple[int, Path]]) -> Iterator[str]:
    for rank, path in logs[:RANKS]:
        yield from (f"  rank {rank}: {line.strip()}" for line in _readable(_last_line(path)))
    if len(logs) > RANKS:
        yield f"  … and {len(logs) - RANKS} more ranks"


def _slow_ranks(folder: Path, logs: Sequence[tuple[int, Path]], config: Mapping[str, Any]) -> Iterator[str]:
    """The slow and late ranks in the ends of the logs."""
    hosts = {rank: (host, node_rank) for rank, host, node_rank, _ in find_logs(folder)}
    ends = [
        RankLog(rank, *hosts[rank], tuple(event for line in _tail(path) if (event := parse(line)) is not None))
        for rank, path in logs
    ]
    ranks = int(config.get("nnodes") or 1) * int(config.get("nproc") or 1)
    for text in sentences(slow_and_late(folder, ends, config, ranks)):
        yield f"  {text}"


def _config(job: Path) -> Mapping[str, Any]:
    try:
        config = read_yaml(job / CONFIG)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return config if isinstance(config, dict) else {}


def _training(logs: Sequence[tuple[int, Path]], config: Mapping[str, Any]) -> Iterator[str]:
    """The last step and evaluation of the first rank, with the limits and targets of the training."""
    events = [event for line in _tail(logs[0][1]) if (event := parse(line)) is not None] if logs else []
    last = {event.event: event for event in events}
    if step := last.get("STEP_END"):
        limits = [f"{key} {config[key]}" for key in LIMITS if config.get(key) is not None]
        progress = step_text(step.value, config.get("throughput_unit", ""), None)
        yield f"  {progress}  ({', '.join(limits) or 'no limit'})"
    elif events:
        yield f"  no step yet, {events[-1].event} was the last event"
    target = config.get("target") or {}
    goals = {target["metric"]: target["value"]} if {"metric", "value"} <= target.keys() else {}
    if evaluated := last.get("EVALUATE"):
        yield f"  evaluated at {evaluation_text(evaluated.value, goals)}"


def _devices(node: Path) -> Iterator[str]:
    """The newest figures of a node's monitors."""
    for name, text in monitor_logs(node):
        if name in NODE_FIGURES:
            figure, samples = NODE_FIGURES[name], list(node_samples(text))
            if samples:
                yield f"{figure.title} {samples[-1][1][0] * figure.factor:.3g} {figure.shown}"
        elif blocks := list(device_blocks(text)):
            yield f"{name}: " + ", ".join(map(Device.line, blocks[-1][1]))


def _tail(path: Path) -> Iterator[str]:
    """The last lines of a file. The first of them may be torn."""
    lines = Lines()
    with regular(path).open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
        ended_lines = lines.feed(file.read(TAIL))
    yield from (line.decode(errors="replace") for line in ended_lines)


def _last_line(path: Path) -> Iterator[str]:
    """The last event or line of a rank's log."""
    text = next((line for line in reversed(list(_tail(path))) if line.strip()), "nothing yet")
    event = parse(text)
    if event is None:
        yield without_logins(text)
        return
    step = event.value.get("step") if isinstance(event.value, dict) else None
    yield event.event if step is None else f"{event.event} of step {step}"


def _log_end(run: Path) -> Iterator[str]:
    """The last lines of the run's log, without time, level and source line."""
    for line in list(_tail(run / RUN_LOG))[-LOG_LINES:]:
        yield line.rpartition("\t")[2].partition("]")[2] or line
