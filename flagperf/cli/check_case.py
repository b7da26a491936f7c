"""`flagperf check model=CASE`: whether the whole schedule of a case can end within the week that FlagPerf allows."""

from __future__ import annotations

import argparse

from flagperf.config.compose import compose
from flagperf.errors import ConfigError
from flagperf.predict.memory import Fit
from flagperf.predict.scaling import scale_of
from flagperf.predict.schedule import REFERENCE, schedule_of
from flagperf.predict.times import figures_of
from flagperf.predict.tracing import Untraced
from flagperf.report.prediction import schedule_lines
from flagperf.run.command_file import key_of
from flagperf.run.predicted import traces, untraced


def main(options: argparse.Namespace) -> int:
    """Print the least time of the schedule. The exit code is 2 where the case needs longer than a week.

    Raises:
        FlagperfError: the case cannot be traced, or no limit ends its training.
    """
    given = {key_of(word) for word in options.arguments}
    reference = [word for word in (*REFERENCE, "size=full") if key_of(word) not in given]
    job = compose([*reference, *options.arguments, "dry_run=true"], options.config_dir)
    (trace,) = traces([job])
    if isinstance(trace, Untraced):
        raise untraced(trace)
    fit = Fit.of(trace, job.config)
    scale = scale_of(trace, job.config, figures_of(job.config), fit.needed, fit.memory)
    schedule = schedule_of(job.config, scale)
    if schedule is None or schedule.seconds is None:
        missing = ", ".join(scale.missing)
        raise ConfigError(
            "the least time of the schedule is not known",
            key="hardware" if missing else "max_steps",
            given=job.hardware.name if missing else None,
            allowed=f"a product whose file has {missing}" if missing else "a limit of steps, samples or epochs",
            advice=None if missing else "max_epochs also needs data.extent of the case",
        )
    print(f"{job.name} on {job.nnodes} x {job.nproc} {job.hardware.name}, {scale.samples:,} samples in a step")
    for line in schedule_lines(schedule):
        print(line)
    return 0 if schedule.within_a_week else ConfigError.exit_code
