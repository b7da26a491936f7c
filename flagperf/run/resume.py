"""`resume=RUN_DIR`: where an earlier run of the same case left its checkpoints."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import yaml

from flagperf.config.values import RunConfig
from flagperf.errors import ConfigError
from flagperf.plan.values import CONFIG
from flagperf.trainer.checkpoints import FORMS

log = logging.getLogger(__name__)

CHECKPOINTS = "checkpoint"  # folder of a round, beside those of its nodes; the newest in it is continued from


def with_checkpoints(run: RunConfig, number: int) -> RunConfig:
    """The run with `resume` naming the folder of checkpoints that the trainer reads: those of the round with its seed.

    A later round that the earlier run did not get to begins anew; so does one job of several that has no checkpoint.

    Raises:
        ConfigError: the earlier run has none.
    """
    given = run.resume
    if given is None:
        return run
    earlier = Path(given).expanduser().absolute()
    later = number if run.config["repeat_seed"] == "own" else 1
    folder = earlier / run.name / f"round{later}" / CHECKPOINTS
    if later > 1 and not folder.is_dir():
        log.info("%s has no checkpoint of round %d, which begins anew", earlier, later)
        return replace(run, resume=None)
    if not any(path for form in FORMS for path in folder.glob(form)):
        if (earlier / run.name).is_dir() and len(list(earlier.glob(f"*/{CONFIG}"))) > 1:
            log.info("%s has no checkpoint of %s, which begins anew", earlier, run.name)
            return replace(run, resume=None)
        there = sorted(path.parents[1].name for path in earlier.glob(f"*/round1/{CHECKPOINTS}"))
        raise ConfigError(
            f"there is no checkpoint of {run.name} to resume from",
            key="resume",
            given=earlier,
            allowed=f"a run folder; checkpoints there: {', '.join(there) or 'none'}",
            advice="set checkpoint_freq in a run that is to be resumed later",
        )
    return replace(run, resume=str(folder))


def earlier_batch_size(run: RunConfig) -> int | None:
    """The batch size of the first round that the run continues; None where it begins anew. Raises as the above."""
    folder = with_checkpoints(run, 1).resume
    if folder is None:
        return None
    return int(yaml.safe_load((Path(folder).parent / CONFIG).read_text(encoding="utf-8"))["train_batch_size"])
