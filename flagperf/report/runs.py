"""The runs of a result folder, with a line for each job. An index in the folder holds the lines of finished runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.contract.records import Summary
from flagperf.contract.regular import parse_json, read_text, write_atomically
from flagperf.errors import ConfigError
from flagperf.plan.values import CONFIG
from flagperf.report import cells, remarks
from flagperf.results import summary as summaries
from flagperf.run.folder import RUN_LOG, is_held

INDEX = ".flagperf_runs.json"
VERSION = 2  # of the index; an index of another version is not read
OF_IDENTITY = ("case", "vendor", "hardware", "scale", "precision")  # fields of `Listed` that are the identity's
UNFINISHED = "not summed up: flagperf report {}"


@dataclass(frozen=True)
class Listed:
    """A job of a run, as text."""

    began: float  # seconds since the epoch
    run: str  # folder
    job: str
    verdict: str
    p_train: str
    note: str  # the reason why the job is not VALID, else notes beside the number
    rate: float | None = None  # p_train as a number; None: not known
    case: str = ""  # this and the following are "" where the job has no summary
    vendor: str = ""
    hardware: str = ""
    scale: str = ""
    precision: str = ""


def listed(folder: Path) -> list[Listed]:
    """Every job of the runs in a result folder, newest run first.

    A run is read again where its summaries changed since the index was written. Figures are as recorded;
    `flagperf report` compares them with the logs.
    """
    known, rows, index = _read_index(folder), [], {}
    for run in sorted(path.parent for path in folder.glob(f"*/{RUN_LOG}")):
        stamps = _stamps(run)
        entry = known.get(run.name)
        if not entry or entry["stamps"] != stamps:
            entry = {"stamps": stamps, "jobs": [dataclasses.asdict(job) for job in listed_run(run)]}
        if all(stamps.values()):  # the others may go on
            index[run.name] = entry
        rows += [Listed(**job) for job in entry["jobs"]]
    if index != known:
        _write_index(folder, index)
    return sorted(rows, key=lambda job: -job.began)


def _stamps(run: Path) -> dict[str, list[int]]:
    """Job → time and size of its summary; empty where the job has none."""
    return {path.parent.name: _stamp(path.with_name(summaries.FILE)) for path in sorted(run.glob(f"*/{CONFIG}"))}


def _stamp(path: Path) -> list[int]:
    with suppress(FileNotFoundError):
        status = path.stat()
        return [status.st_mtime_ns, status.st_size]
    return []


def listed_run(run: Path) -> Iterator[Listed]:
    """Every job of a run, from its summaries as recorded."""
    for job, stamp in _stamps(run).items():
        if stamp:
            yield _job(run, job)
        else:
            goes_on = is_held(run)
            verdict, note = ("RUNNING", "") if goes_on else (cells.ABSENT, UNFINISHED.format(run))
            yield Listed(_began(run), run.name, job, verdict, cells.ABSENT, note)


def _job(run: Path, job: str) -> Listed:
    try:
        summary = summaries.read(run / job)
        cell = cells.row(summary)
        began = min((result.started for result in summary.results if result.started), default=_began(run))
        speed = cell["p_train"] if cell["p_train"] == cells.ABSENT else f"{cell['p_train']} {cell['unit']}"
        rate, identity = summary.statistics.get("p_train"), summary.identity
        return Listed(
            began,
            run.name,
            job,
            cell["verdict"],
            speed,
            _note(summary),
            rate.mean if rate else None,
            **{name: str(getattr(identity, name)) for name in OF_IDENTITY},
        )
    except (ConfigError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        given = error.given if isinstance(error, ConfigError) else str(error)
        return Listed(_began(run), run.name, job, cells.ABSENT, cells.ABSENT, f"{summaries.FILE} is damaged: {given}")


def _note(summary: Summary) -> str:
    reasons = [reason for _, _, reasons_of_part, _ in remarks.problems(summary) for reason in reasons_of_part]
    return "; ".join(reasons[:1] or cells.notes(summary))


def _began(run: Path) -> float:
    return (run / RUN_LOG).stat().st_mtime


def _read_index(folder: Path) -> dict[str, Any]:
    """Run → its entry of the index; empty where the index is missing, damaged or of another version."""
    try:
        index = parse_json(read_text(folder / INDEX))
        if index["version"] == VERSION and all(_is_entry(entry) for entry in index["runs"].values()):
            return dict(index["runs"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return {}


def _is_entry(entry: Mapping[str, Any]) -> bool:
    fields = {field.name for field in dataclasses.fields(Listed)}
    return isinstance(entry["stamps"], dict) and all(set(job) == fields for job in entry["jobs"])


def _write_index(folder: Path, runs: Mapping[str, Any]) -> None:
    """Replace the index atomically. A user without write access reads the summaries each time."""
    with suppress(OSError):
        write_atomically(folder / INDEX, json.dumps({"version": VERSION, "runs": runs}))
