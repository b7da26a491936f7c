"""`resume=RUN_DIR`: where an earlier run of the same case left its checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flagperf.config.values import RunConfig
from flagperf.errors import ConfigError

CHECKPOINTS = "checkpoint"  # folder of a round, beside those of its nodes; step<N>.pt, the newest is continued from


def with_checkpoints(run: RunConfig) -> RunConfig:
    """The run with `resume` naming the folder of checkpoints that the trainer reads, of round 1 of the same case.

    Raises:
        ConfigError: the earlier run has none.
    """
    given = run.resume
    if given is None:
        return run
    earlier = Path(given).expanduser().absolute()
    folder = earlier / run.name / "round1" / CHECKPOINTS
    if not any(folder.glob("step*.pt")):
        there = sorted(path.parents[1].name for path in earlier.glob(f"*/round1/{CHECKPOINTS}"))
        raise ConfigError(
            f"there is no checkpoint of {run.name} to resume from",
            key="resume",
            given=earlier,
            allowed=f"a run folder; checkpoints there: {', '.join(there) or 'none'}",
            advice="set checkpoint_freq in a run that is to be resumed later",
        )
    return replace(run, resume=str(folder))
