"""`resume=RUN` of several jobs: takes over the jobs that the earlier run has completed."""

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
from flagperf.user import user_path

# Keys that may differ between two runs of the same job: folders, reports, and the code of flagperf.
MAY_DIFFER = ("resume", "run_name", "result_dir", "reports", "log_level", "dry_run", "submit", "only", "code")

log = logging.getLogger(__name__)


def taken_over(job: JobConfig, folder: Path) -> Summary | None:
    """The summary of a job that the earlier run has completed with the same configuration; None: it has not.

    Args:
        folder: of this run; gets a copy of the job's files.
    """
    if job.resume is None:
        return None
    earlier = user_path(job.resume).absolute() / job.name
    try:
        done = summary.read(earlier)
    except ConfigError:
        return None  # the job was broken off, or never began
    if len(done.results) != job.repeat or any(result.status != "finished" for result in done.results):
        return None
    size = done.identity.train_batch_size
    sized_job = job if job.sized is None or size is None else job.sized(size)  # the size that the earlier run found
    if _stated(done.config) != _stated(sized_job.config):
        log.info("%s has another configuration than in %s, and runs again", job.name, earlier.parent)
        return None
    shutil.copytree(earlier, folder / job.name, symlinks=True, dirs_exist_ok=True, copy_function=shutil.copyfile)
    log.info("%s was done in %s, and is taken over", job.name, earlier.parent)
    return done


def _stated(config: Mapping[str, Any]) -> Any:
    """The configuration in the form of files, without the keys that may differ."""
    return json.loads(json.dumps({key: value for key, value in config.items() if key not in MAY_DIFFER}, default=str))
