"""The least time of each case's whole schedule on FlagPerf's reference: a machine with eight A100.

    python benchmarks/least_times.py [CASE ...]

Without CASE: all cases of PyTorch, and the table is written into docs/predict.md, between its two comments.
"""

from __future__ import annotations

import sys

from predict_page import measure_cases
from predicted_published import traced

from flagperf.config.compose import compose
from flagperf.predict.memory import Fit
from flagperf.predict.scaling import scale_of
from flagperf.predict.schedule import REFERENCE, schedule_of
from flagperf.predict.times import figures_of
from flagperf.report.cells import number
from flagperf.report.prediction import age
from flagperf.run.predicted import config_of


def row(case: str) -> dict[str, str]:
    """A line of the table."""
    config = config_of(compose([f"model={case}", *REFERENCE, "size=full", "dry_run=true"]))
    ((trace, reason),) = traced([config])
    if trace is None:
        raise SystemExit(f"{case}: {reason}")
    fit = Fit.of(trace, config)
    scale = scale_of(trace, config, figures_of(config), fit.needed, fit.memory)
    schedule = schedule_of(config, scale)
    if schedule is None or schedule.seconds is None or scale.times is None:
        raise SystemExit(f"{case}: no limit, or no times: {scale.missing}")
    step = scale.times.at_least(fused=True, overlap=True)
    return {
        "case": case,
        "precision": config["precision"],
        "samples of a step": f"{scale.samples:,}",
        "steps": f"{schedule.steps:,}",
        "limit": f"`{schedule.limit}`",
        "step at least [s]": number(step, 3),
        "schedule at least": age(schedule.seconds),
        "within a week": "yes" if schedule.within_a_week else "**no**",
        "memory": fit.verdict or "",
    }


if __name__ == "__main__":
    measure_cases("least_times", row, sys.argv[1:])
