"""`resume=RUN_DIR`: where an earlier run of the same case left its checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flagperf.config.schema.values import JobConfig
from flagperf.contract.checkpoint import FORMS, check_form, check_identity, recipe
from flagperf.contract.mesh import DATA_PARALLEL, STRATEGIES
from flagperf.contract.regular import read_yaml
from flagperf.errors import ConfigError
from flagperf.plan.values import CONFIG

log = logging.getLogger(__name__)

COMPARED = ("case", "revision", "size", "precision", "ema", "synthetic")  # the ranks compare the rest, which may follow
CHECKPOINTS = "checkpoint"  # folder of a round, beside those of its nodes; the newest in it is continued from


def check_resumed(jobs: Sequence[JobConfig]) -> None:
    """Refuse what cannot be resumed, before a run has a folder. Of several jobs some may be taken over as they are.

    Raises:
        ConfigError: as `with_checkpoints`; of several jobs, where there is no such run.
    """
    if len(jobs) == 1:
        with_checkpoints(jobs[0], 1)
    else:
        _earlier(str(jobs[0].resume))


def with_checkpoints(job: JobConfig, number: int) -> JobConfig:
    """The job with `resume` naming the folder of checkpoints that the trainer reads: those of the round with its seed.

    A later round that the earlier run did not get to begins anew; so does one job of several that has no checkpoint.

    Raises:
        ConfigError: there is no such run, or it has none, or that of another training.
    """
    given = job.resume
    if given is None:
        return job
    earlier = _earlier(given)
    later = number if job.config["repeat_seed"] == "own" else 1
    folder = earlier / job.name / f"round{later}" / CHECKPOINTS
    if later > 1 and not folder.is_dir():
        log.info("%s has no checkpoint of round %d, which begins anew", earlier, later)
        return replace(job, resume=None)
    found = sorted((path for form in FORMS for path in folder.glob(form)), key=lambda path: path.stem)
    if not found:
        if (earlier / job.name).is_dir() and len(list(earlier.glob(f"*/{CONFIG}"))) > 1:
            log.info("%s has no checkpoint of %s, which begins anew", earlier, job.name)
            return replace(job, resume=None)
        there = sorted(path.parents[1].name for path in earlier.glob(f"*/round1/{CHECKPOINTS}"))
        raise ConfigError(
            f"there is no checkpoint of {job.name} to resume from",
            key="resume",
            given=earlier,
            allowed=f"a run folder; checkpoints there: {', '.join(there) or 'none'}",
            advice="set checkpoint_freq in a run that is to be resumed later",
        )
    _check_same(job, found[-1])
    return replace(job, resume=str(folder))


def _earlier(given: str) -> Path:
    """The folder of the run that is resumed."""
    earlier = Path(given).expanduser().absolute()
    if not earlier.is_dir():
        problem, allowed = "there is no run to resume", "the folder of a run, such as result/run20260101-120000"
        raise ConfigError(problem, key="resume", given=earlier, allowed=allowed, advice="flagperf list runs shows them")
    return earlier


def _check_same(job: JobConfig, newest: Path) -> None:
    """Refuse a checkpoint of another training as far as the launcher can tell: by its form and its configuration."""
    strategy = job.strategy or DATA_PARALLEL[0]
    if strategy.startswith(f"{STRATEGIES}."):
        check_form(newest, in_parts=strategy not in DATA_PARALLEL)
    file = newest.parents[1] / CONFIG
    if file.is_file() and job.sized is None:  # other values may follow from a batch size that is still to be found
        check_identity(file, *(_told(config) for config in (read_yaml(file), job.config)))


def _told(config: Mapping[str, Any]) -> dict[str, Any]:
    return {**{key: config[key] for key in COMPARED if key in config}, **recipe(config)}


def earlier_batch_size(job: JobConfig) -> int | None:
    """The batch size of the first round that the job continues; None where it begins anew. Raises as the above."""
    folder = with_checkpoints(job, 1).resume
    if folder is None:
        return None
    return int(read_yaml(Path(folder).parent / CONFIG)["train_batch_size"])
