"""The result folder of a run, made by the launcher before anything starts."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from flagperf.config.schema.values import JobConfig
from flagperf.contract.regular import regular
from flagperf.errors import ConfigError, ResultsError
from flagperf.plan.environment import environment_script
from flagperf.plan.values import CONFIG, ENVIRONMENT, Plan
from flagperf.run import made_here

DISK = {  # what the disk of the results may say in the middle of a run, whichever file it is about
    errno.ENOSPC: "no space is left for results",
    errno.EDQUOT: "the user's quota leaves no space for results",
    errno.EROFS: "the disk of the results became read-only",
    errno.EIO: "the disk of the results cannot be read or written",
    errno.ESTALE: "the server of the results forgot the folder (stale NFS file handle)",
}
RESULTS = "result"  # the default of `result_dir`
RUN_LOG = "flagperf_run.log"
SUBMITTED = "submitted.json"  # of a run that waits in a scheduler's queue, whose launcher will take the folder
PLAN = "plan.json"  # of a round: the exact commands, per node, and where its folders lie there


def create(job: JobConfig) -> Path:
    """Make the run folder: `run_name`, or run<YYYYmmdd-HHMMSS>, below `result_dir`. That of a submitted run is there.

    Raises:
        ConfigError: it exists already, or cannot be made.
    """
    parent = Path(job.result_dir).expanduser().absolute()
    name = job.run_name
    folder = parent / (name or f"run{datetime.now():%Y%m%d-%H%M%S}")
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
        taken = folder if folder.exists() else parent
        problem = "a run folder of this name is there already" if taken.is_dir() else "a file is where the folder goes"
        raise ConfigError(
            problem,
            key="run_name" if name else "result_dir",
            given=taken,
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
    """Hold the run folder while the block runs. The system lets go of it however this process ends.

    Raises:
        ResultsError: a file of it cannot be written in the block.
    """
    try:
        with (folder / RUN_LOG).open("a") as file:
            with suppress(OSError):  # a file system without locks: a report then says "unfinished"
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else ""
        if error.errno in DISK or not Path(place).is_relative_to(folder):
            raise
        raise ResultsError(place, error.strerror or str(error)) from error


def is_held(folder: Path) -> bool:
    """Whether a launcher holds the run folder: its run goes on."""
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
    """The job of Slurm in which a run will begin."""

    number: str  # its id; of a task of an array both numbers, 12_3

    @property
    def log(self) -> str:
        """Name of the file of what the job prints."""
        return f"slurm-{self.number}.log"


def _own_job() -> str | None:
    """The job of Slurm that this process is of, as `Submitted` has it."""
    if task := os.environ.get("SLURM_ARRAY_TASK_ID"):
        return f"{os.environ.get('SLURM_ARRAY_JOB_ID')}_{task}"
    return os.environ.get("SLURM_JOB_ID")


def note_submitted(folder: Path, note: Submitted) -> None:
    (folder / SUBMITTED).write_text(json.dumps(dataclasses.asdict(note), indent=2) + "\n", encoding="utf-8")


def submitted(folder: Path) -> Submitted:
    """What the folder says of the run's job.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return Submitted(**json.loads(regular(folder / SUBMITTED).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{SUBMITTED} cannot be read", where=str(folder), given=str(error)) from None


def is_awaited(folder: Path) -> bool:
    """Whether the run was submitted, and its launcher has not begun."""
    if not (folder / SUBMITTED).exists():
        return False
    return not any(path.name == RUN_LOG for path in folder.iterdir())  # to look for it alone may be answered by a cache


def write_case(job: JobConfig, plan: Plan, folder: Path) -> None:
    """Write a case's config.yaml and changes.yaml, and the round's config.yaml, environment.sh and plan.json."""
    case = folder / job.name
    write_configuration(job, case)
    own = case / f"round{plan.round}" / CONFIG
    own.parent.mkdir(exist_ok=True)
    made_here.write(folder, own, _yaml(plan.config, f"# python -m flagperf.trainer {own}"))
    text = json.dumps(_without_config(plan), indent=2, ensure_ascii=False) + "\n"
    made_here.write(folder, own.parent / PLAN, text.encode())
    own.with_name(ENVIRONMENT).write_text(environment_script(job), encoding="utf-8")


def write_configuration(job: JobConfig, case: Path) -> None:
    """Make a case's folder with config.yaml and changes.yaml, by which `flagperf report` knows it."""
    case.mkdir(exist_ok=True)
    title = f"# the configuration of {job.name}; that of a round differs in its seed"
    made_here.write(case.parent, case / CONFIG, _yaml(job.config, title))
    changes = [dataclasses.asdict(change) for change in job.changes]
    (case / "changes.yaml").write_bytes(_yaml(changes, f"# what {job.name} changes against its case, and where"))


def _yaml(content: object, title: str) -> bytes:
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    comment = title.replace("\n", "\n# ")  # a name may have several lines
    return f"{comment}\n{text}".encode()


def _without_config(plan: Plan) -> dict[str, object]:
    config = {"config": CONFIG, "seed": plan.config["seed"]}
    return dataclasses.asdict(dataclasses.replace(plan, config={})) | config
