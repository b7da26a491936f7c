"""`resume=RUN` of several jobs: what the earlier run has done is taken over, and not done again."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.config.schema.values import JobConfig
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError
from flagperf.results import summary

# What may differ between two runs of the same job: where it is written, and which flagperf runs it.
ELSEWHERE = ("resume", "run_name", "result_dir", "reports", "log_level", "dry_run", "submit", "only", "code")

log = logging.getLogger(__name__)


def taken_over(job: JobConfig, folder: Path) -> Summary | None:
    """What the earlier run found of the job, with its files; None where the job is still to do.

    A job is done when all its rounds ended, of the configuration that it has now.

    Args:
        folder: of this run, to which the files are copied.
    """
    if job.resume is None:
        return None
    earlier = Path(job.resume).expanduser().absolute() / job.name
    try:
        done = summary.read(earlier)
    except ConfigError:
        return None  # it was broken off, or never begun
    if len(done.results) != job.repeat or any(found.status != "finished" for found in done.results):
        return None
    size = done.identity.train_batch_size
    same = job if job.sized is None or size is None else job.sized(size)  # as was found for it
    if _stated(done.config) != _stated(same.config):
        log.info("%s has another configuration than in %s, and runs again", job.name, earlier.parent)
        return None
    shutil.copytree(earlier, folder / job.name, symlinks=True, dirs_exist_ok=True)
    log.info("%s was done in %s, and is taken over", job.name, earlier.parent)
    return done


def _stated(config: Mapping[str, Any]) -> Any:
    """The configuration as files keep it, without what may differ."""
    return json.loads(json.dumps({key: value for key, value in config.items() if key not in ELSEWHERE}, default=str))
