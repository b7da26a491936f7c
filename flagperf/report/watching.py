"""What goes on in a run of another terminal, from its files alone: they grow while it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from flagperf.contract.log_lines import Lines
from flagperf.contract.monitor_log import NODE_FIGURES, Device, device_blocks, monitor_logs, node_samples
from flagperf.contract.perflog import Event, parse
from flagperf.contract.regular import read_yaml, regular
from flagperf.errors import ConfigError
from flagperf.plan.values import CONFIG
from flagperf.report.runs import Listed, listed_run
from flagperf.results import result
from flagperf.results.rank_log import find_logs, node_folders
from flagperf.results.summary import FILE as SUMMED_UP
from flagperf.run.folder import RUN_LOG, is_awaited, is_held, submitted
from flagperf.run.pace import evaluation_text, step_text
from flagperf.secret import without_logins

TAIL = 1 << 18  # bytes of a log that are read; some thousand events
SAID = 4  # lines of the run's log
RANKS = 16  # whose last lines are shown
LIMITS = ("max_steps", "max_epochs", "max_samples_termination", "max_time")


def snapshot(run: Path, stands: str = "") -> list[str]:
    """The run as it is now, line by line.

    Args:
        stands: what its scheduler says of a run that has not begun, if it can be asked.

    Raises:
        ConfigError: there is no run in the folder.
    """
    if is_awaited(run):
        return _awaited(run, stands)
    jobs = sorted(path.parent for path in run.glob(f"*/{CONFIG}"))
    if not (run / RUN_LOG).exists():
        advice = "give a folder such as result/run20260101-120000; flagperf list runs shows them"
        raise ConfigError("no run in this folder", given=run, advice=advice)
    head = f"{run}: goes on, {datetime.now():%H:%M:%S}" if is_held(run) else f"{run}: has ended, {_end(run)}"
    ended = [_ended(job) for job in listed_run(run) if (run / job.job / SUMMED_UP).exists()]
    current = next((place for job in jobs if (place := _current_round(job))), None)
    waiting = [job.name for job in jobs if not (job / SUMMED_UP).exists() and not (current and job == current.parent)]
    lines = [head, "", *ended, *(f"{name}: its turn has not come" for name in waiting)]
    return lines + ([*_round(current), ""] if current else [""]) + _said(run)


def _end(run: Path) -> str:
    """When the run's log was last written to: by its last time, else by the file's."""
    times = [found[0] for line in _tail(run / RUN_LOG) if (found := re.match(r"[\d-]{10} [\d:]{8}", line))]
    return times[-1] if times else f"{datetime.fromtimestamp((run / RUN_LOG).stat().st_mtime):%Y-%m-%d %H:%M:%S}"


def _awaited(run: Path, stands: str) -> list[str]:
    """What is known of a run that was submitted, and has not begun."""
    job = submitted(run).number
    return [
        f"{run}: has not begun; it is Slurm job {job}",
        f"it {stands}" if stands else f"how it stands: squeue --jobs={job}",
        f"end: scancel {job}",
    ]


def _ended(job: Listed) -> str:
    return "  ".join(part for part in (f"{job.job}: {job.verdict}", job.p_train, job.note) if part)


def _current_round(job: Path) -> Path | None:
    """The round of a job that has begun and has no result yet."""
    if (job / SUMMED_UP).exists():
        return None
    rounds = sorted(job.glob("round*"), key=lambda path: int(path.name.removeprefix("round") or 0))
    return rounds[-1] if rounds and not (rounds[-1] / result.FILE).exists() else None


def _round(folder: Path) -> Iterator[str]:
    config = _config(folder.parent)
    yield f"{folder.parent.name}: round {folder.name.removeprefix('round')} of {config.get('repeat', '?')}"
    logs = [(rank, path) for rank, _, _, path in find_logs(folder)]
    if logs:
        yield from _training(_events(logs[0][1]), config)
    for _, node_rank, node in node_folders(folder):
        if devices := "  ".join(_devices(node)):
            yield f"  node {node_rank}: {devices}"
    for rank, path in logs[:RANKS]:
        yield f"  rank {rank}: {_last_line(path)}"
    if len(logs) > RANKS:
        yield f"  … and {len(logs) - RANKS} more ranks"


def _config(job: Path) -> Mapping[str, Any]:
    try:
        found = read_yaml(job / CONFIG)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _training(events: Sequence[Event], config: Mapping[str, Any]) -> Iterator[str]:
    """The last step and evaluation of the first rank, against what ends the training."""
    last = {event.event: event for event in events}
    if step := last.get("STEP_END"):
        limits = [f"{key} {config[key]}" for key in LIMITS if config.get(key) is not None]
        said = step_text(step.value, config.get("throughput_unit", ""), None)
        yield f"  {said}  ({', '.join(limits) or 'no limit'})"
    elif events:
        yield f"  no step yet, {events[-1].event} was the last event"
    target = config.get("target") or {}
    goals = {target["metric"]: target["value"]} if {"metric", "value"} <= target.keys() else {}
    if evaluated := last.get("EVALUATE"):
        yield f"  evaluated at {evaluation_text(evaluated.value, goals)}"


def _devices(node: Path) -> Iterator[str]:
    """The newest figures of the node's monitors."""
    for name, text in monitor_logs(node):
        if name in NODE_FIGURES:
            figure, samples = NODE_FIGURES[name], list(node_samples(text))
            if samples:
                yield f"{figure.title} {samples[-1][1][0] * figure.factor:.3g} {figure.shown}"
        elif blocks := list(device_blocks(text)):
            yield f"{name}: " + ", ".join(map(Device.line, blocks[-1][1]))


def _events(log: Path) -> list[Event]:
    return [event for line in _tail(log) if (event := parse(line)) is not None]


def _tail(path: Path) -> list[str]:
    """The last lines of a file; the first of them may be torn."""
    lines = Lines()
    with regular(path).open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
        found = lines.feed(file.read(TAIL))
    return [line.decode(errors="replace") for line in found]


def _last_line(path: Path) -> str:
    said = next((line for line in reversed(_tail(path)) if line.strip()), "nothing yet")
    event = parse(said)
    if event is None:
        return without_logins(said)
    step = event.value.get("step") if isinstance(event.value, dict) else None
    return event.event if step is None else f"{event.event} of step {step}"


def _said(run: Path) -> list[str]:
    """The end of the run's log, without the columns that are for searching."""
    return [line.rpartition("\t")[2].partition("]")[2] or line for line in _tail(run / RUN_LOG)[-SAID:]]
