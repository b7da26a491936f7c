"""The result folder of a run. The launcher makes the folder before all other work."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from flagperf.config.schema.values import JobConfig
from flagperf.contract import alignment, made_here
from flagperf.contract.regular import parse_json, regular, write_atomically, yaml_text
from flagperf.errors import ConfigError, ResultsError
from flagperf.plain import comment, is_text
from flagperf.plan.environment import environment_script
from flagperf.plan.values import CONFIG, ENVIRONMENT, Plan
from flagperf.user import user_path

DISK = {  # errors of the disk of the results during a run
    errno.ENOSPC: "no space is left for results",
    errno.EDQUOT: "the user's quota leaves no space for results",
    errno.EFBIG: "a file of the results reached the limit of a file's size (ulimit -f)",
    errno.EROFS: "the disk of the results became read-only",
    errno.EIO: "the disk of the results cannot be read or written",
    errno.ESTALE: "the server of the results forgot the folder (stale NFS file handle)",
}
RESULTS = "result"  # the default of `result_dir`
RUN_LOG = "flagperf_run.log"
SUBMITTED = "submitted.json"  # of a run that waits in a scheduler's queue; its launcher will use the folder
PLAN = "plan.json"  # of a round: the exact commands and the folders of each node


def create(job: JobConfig) -> Path:
    """Make the run folder below `result_dir`: `run_name`, or run<YYYYmmdd-HHMMSS>. A submitted run has its folder.

    Raises:
        ConfigError: the folder exists, or cannot be made.
    """
    parent = user_path(job.result_dir).absolute()
    name = job.run_name
    folder = parent / (name or f"run{datetime.now():%Y%m%d-%H%M%S}")
    for key, path in {"result_dir": parent, "the current folder": Path.cwd()}.items():
        if not is_text(str(path)):
            problem = "this path is not UTF-8, and files of a run name it"
            raise ConfigError(problem, key=key, given=path, advice="give the folder another name")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                if name and is_awaited(folder) and submitted(folder).number == _own_job():
                    return folder
                if name:
                    raise
                folder = _another(folder)  # two runs began in the same second
    except FileExistsError:
        existing = folder if folder.exists() else parent
        problem = "a file has the name of this folder"
        if existing.is_dir():
            problem = "a run folder of this name exists already"
        raise ConfigError(
            problem,
            key="run_name" if name else "result_dir",
            given=existing,
            advice="choose another run_name or result_dir",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"the result folder cannot be made: {error.strerror}",
            key="result_dir",
            given=folder,
            advice="choose a writable result_dir",
        ) from None


def _another(folder: Path) -> Path:
    start, _, number = folder.name.partition("_")
    return folder.with_name(f"{start}_{int(number or 1) + 1}")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock the run folder while the block runs. The system removes the lock at any end of this process.

    Raises:
        ResultsError: the block could not write a file of the folder.
    """
    try:
        with (folder / RUN_LOG).open("a") as file:
            with suppress(OSError):  # a file system without locks: a report then says "unfinished"
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        path = error.filename if isinstance(error.filename, str) else ""
        if error.errno in DISK or not Path(path).is_relative_to(folder):
            raise
        raise ResultsError(path, error.strerror or str(error)) from error


def is_held(folder: Path) -> bool:
    """Whether a launcher has locked the run folder, because its run goes on."""
    try:
        with regular(folder / RUN_LOG).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True)
class Submitted:
    """The Slurm job of a submitted run."""

    number: str  # ID of the job; for a task of an array both numbers: 12_3

    @property
    def log(self) -> str:
        """Name of the file with the job's output."""
        return f"slurm-{self.number}.log"


def _own_job() -> str | None:
    """The Slurm job of this process, in the form of `Submitted.number`; None: it has no Slurm job."""
    if task := os.environ.get("SLURM_ARRAY_TASK_ID"):
        return f"{os.environ.get('SLURM_ARRAY_JOB_ID')}_{task}"
    return os.environ.get("SLURM_JOB_ID")


def note_submitted(folder: Path, note: Submitted) -> None:
    """Write the Slurm job of a submitted run into the run's folder."""
    write_atomically(folder / SUBMITTED, json.dumps(dataclasses.asdict(note), indent=2) + "\n")


def submitted(folder: Path) -> Submitted:
    """The Slurm job of a submitted run.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        note = Submitted(**parse_json(regular(folder / SUBMITTED).read_text(encoding="utf-8")))
        if not re.fullmatch(r"[0-9]+(_[0-9]+)?", note.number):
            raise ValueError(f"{note.number} is no Slurm job")
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{SUBMITTED} cannot be read", where=str(folder), given=str(error)) from None
    return note


def is_awaited(folder: Path) -> bool:
    """Whether the run was submitted, and its launcher has not begun."""
    if not (folder / SUBMITTED).exists():
        return False
    # A network file system may answer for a single name from its cache.
    return not any(path.name == RUN_LOG for path in folder.iterdir())


def write_case(job: JobConfig, plan: Plan, folder: Path) -> None:
    """Write a case's config.yaml and changes.yaml, and the round's config.yaml, environment.sh and plan.json."""
    case = folder / job.name
    write_configuration(job, case)
    round_config = case / f"round{plan.round}" / CONFIG
    round_config.parent.mkdir(exist_ok=True)
    made_here.write(folder, round_config, _yaml(plan.config, f"python -m flagperf.trainer {round_config}"))
    text = json.dumps(_without_config(plan), indent=2, ensure_ascii=False) + "\n"
    made_here.write(folder, round_config.parent / PLAN, text.encode())
    write_atomically(round_config.with_name(ENVIRONMENT), environment_script(job))


def write_configuration(job: JobConfig, case: Path) -> None:
    """Make a case's folder with config.yaml and changes.yaml. `flagperf report` recognizes it by these files."""
    case.mkdir(exist_ok=True)
    title = f"the configuration of {job.name}; that of a round differs in its seed"
    made_here.write(case.parent, case / CONFIG, _yaml(job.config, title))
    changes = [dataclasses.asdict(change) for change in job.changes]
    write_atomically(case / "changes.yaml", _yaml(changes, f"what {job.name} changes against its case, and where"))
    if record := job.config.get("alignment_record"):
        _copy_alignment(user_path(job.config["alignment"]), list(record["curves"]), case / alignment.FOLDER)


def _copy_alignment(named: Path, curves: Sequence[str], folder: Path) -> None:
    """Copy the files of the alignment that a job names: `flagperf verify` recomputes the record from them."""
    folder.mkdir(exist_ok=True)
    for file in alignment.files_of(named if named.is_dir() else named.parent, curves):
        shutil.copyfile(file, folder / file.name)


def _yaml(content: object, title: str) -> bytes:
    return f"{comment(title)}\n{yaml_text(content)}".encode()


def _without_config(plan: Plan) -> dict[str, object]:
    config = {"config": CONFIG, "seed": plan.config["seed"]}
    return dataclasses.asdict(dataclasses.replace(plan, config={})) | config
