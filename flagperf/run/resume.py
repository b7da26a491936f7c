"""`resume=RUN_DIR`: finds the checkpoints of an earlier run of the same case."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flagperf.config.schema.keys import KEYS
from flagperf.config.schema.values import JobConfig
from flagperf.contract.checkpoint import (
    BATCH,
    CHECKPOINTS,
    FORMS,
    check_form,
    check_identity,
    computed,
    hash_file,
    hashes,
)
from flagperf.contract.digest import sha256_of
from flagperf.contract.mesh import DATA_PARALLEL, STRATEGIES
from flagperf.contract.regular import read_mapping
from flagperf.errors import ConfigError
from flagperf.plan.values import CONFIG
from flagperf.results.attempts import folders as attempt_folders
from flagperf.user import user_path

log = logging.getLogger(__name__)

OF_RANKS = ("seed", *BATCH)  # that only the ranks compare: these depend on the round and on the mesh


def check_resumed(jobs: Sequence[JobConfig]) -> None:
    """Refuse a run that cannot be resumed, before the new run has a folder. Several jobs need no checkpoints.

    Raises:
        ConfigError: as `with_checkpoints`; for several jobs only: the run is missing.
    """
    if len(jobs) == 1:
        with_checkpoints(jobs[0], 1)
    else:
        _earlier(str(jobs[0].resume))


def with_checkpoints(job: JobConfig, number: int) -> JobConfig:
    """The job with the folder of its checkpoints in `resume`: the checkpoints of the round with the same seed.

    A later round, or one of several jobs, without a checkpoint starts from the beginning.

    Raises:
        ConfigError: the run is missing, or has no checkpoint, or a checkpoint of another training.
    """
    run_dir = job.resume
    if run_dir is None:
        return job
    earlier = _earlier(run_dir)
    later = number if job.config["repeat_seed"] == "own" else 1
    folder = _folder(earlier / job.name / f"round{later}")
    if later > 1 and not folder.is_dir():
        log.info("%s has no checkpoint of round %d, which starts from the beginning", earlier, later)
        return replace(job, resume=None)
    checkpoints = checkpoints_in(folder)
    if not checkpoints:
        if (earlier / job.name).is_dir() and len(list(earlier.glob(f"*/{CONFIG}"))) > 1:
            log.info("%s has no checkpoint of %s, which starts from the beginning", earlier, job.name)
            return replace(job, resume=None)
        names = sorted(path.parents[1].name for path in earlier.glob(f"*/round1/{CHECKPOINTS}"))
        raise ConfigError(
            f"there is no checkpoint of {job.name} to resume from",
            key="resume",
            given=earlier,
            allowed=f"a run folder; checkpoints there: {', '.join(names) or 'none'}",
            advice="set checkpoint_freq in a run that is to be resumed later",
        )
    _check_same(job, checkpoints[-1])
    return replace(job, resume=str(folder))


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the oldest first."""
    return sorted((path for form in FORMS for path in folder.glob(form)), key=lambda path: path.stem)


def needed_files(folder: Path) -> list[Path]:
    """What a host without this folder of checkpoints needs of it: files and folders.

    That is the newest checkpoint. If its hashes do not fit, all: the ranks then use the one before, and note why.
    """
    newest = checkpoints_in(folder)[-1:]
    if newest and hash_file(newest[0]).is_file() and _is_intact(newest[0]):
        return [*newest, hash_file(newest[0])]
    return sorted(folder.iterdir())


def _is_intact(checkpoint: Path) -> bool:
    try:
        files = hashes(checkpoint)
        return bool(files) and all(sha256_of(checkpoint.parent / name) == digest for name, digest in files.items())
    except OSError:
        return False


def _folder(round_folder: Path) -> Path:
    """The folder with the checkpoints of a round: that of its last attempt with a checkpoint."""
    attempts = (round_folder, *reversed(attempt_folders(round_folder)))
    return next((path for of in attempts if checkpoints_in(path := of / CHECKPOINTS)), round_folder / CHECKPOINTS)


def _earlier(run_dir: str) -> Path:
    """The folder of the run that is resumed."""
    earlier = user_path(run_dir).absolute()
    if not earlier.is_dir():
        problem, allowed = "there is no run to resume", "the folder of a run, such as result/run20260101-120000"
        raise ConfigError(problem, key="resume", given=earlier, allowed=allowed, advice="flagperf list runs shows them")
    return earlier


def _check_same(job: JobConfig, newest: Path) -> None:
    """Refuse a checkpoint of another training, by its form and its configuration."""
    strategy = job.strategy or DATA_PARALLEL[0]
    if strategy.startswith(f"{STRATEGIES}."):
        check_form(newest, in_parts=strategy not in DATA_PARALLEL)
    file = newest.parents[1] / CONFIG
    if file.is_file() and job.sized is None:  # other values may depend on the unknown batch size
        check_identity(file, *(_identity(config) for config in (read_mapping(file), job.config)))


def _identity(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in computed(config).items() if key not in OF_RANKS}


def earlier_batch_size(job: JobConfig) -> int | None:
    """The batch size of the resumed first round; None: no earlier round. Raises as `with_checkpoints`."""
    folder = with_checkpoints(job, 1).resume
    if folder is None:
        return None
    size: Any = read_mapping(file := Path(folder).parent / CONFIG).get("train_batch_size")
    KEYS["train_batch_size"].check("train_batch_size", size, lambda _: str(file))
    return int(size)
