"""Recomputes whether the target was reached, and which limit ended the training."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

from flagperf.verify.logs import Round
from flagperf.verify.values import UnknownError

LIMITS = {  # key of the configuration → the figure that it limits
    "max_steps": "global_steps",
    "max_epochs": "epochs",
    "max_samples_termination": "global_samples",
    "max_time": "raw_train_time",
}
NO_METRICS = ("step", "samples", "time", "epoch")  # fields of EVALUATE that are no metrics


def metrics(round_: Round) -> dict[str, Any]:
    """The metrics of the last evaluation, as rank 0 logged them; empty where the training was not evaluated."""
    if not round_.ranks or not round_.ranks[0].all("FINISHED"):
        raise UnknownError("no rank that finished has a log")
    events = round_.ranks[0].all("EVALUATE")
    return {name: value for name, value in events[-1].value.items() if name not in NO_METRICS} if events else {}


def is_reached(target: Mapping[str, Any] | None, measured: Mapping[str, Any]) -> bool:
    """Whether all metrics are at least as good as the target requires."""
    if not target:
        return False
    required = {target["metric"]: target["value"], **(target.get("also") or {})}
    is_good = operator.ge if target["direction"] == "higher" else operator.le
    return all(measured.get(name) is not None and is_good(measured[name], value) for name, value in required.items())


def asked_limits(round_: Round) -> str:
    """The limits that the user set, as a text."""
    return ", ".join(key for key in LIMITS if key in round_.changed_keys)


def stop_reasons(round_: Round) -> list[str]:
    """All limits that may have ended the training."""
    figures, config = round_.figures, round_.config
    if is_reached(figures.get("target"), metrics(round_)):
        return ["target"]
    if not math.isfinite(figures["final_loss"]):
        return ["non_finite_loss"]
    on_samples = figures.get("sample_data") and config["size"] == "full" and config.get("stop_on_sample_data")
    if on_samples and is_reached(config.get("target"), metrics(round_)):
        return ["target_on_sample_data"]
    return [key for key, figure in LIMITS.items() if config.get(key) is not None and figures[figure] >= config[key]]


def target_reached(round_: Round) -> bool | None:
    """None where no target applies, its metric was not measured, or a limit of the user ended the training."""
    stated, target = round_.stated, round_.config.get("target")
    other_data = stated.get("sample_data") and round_.config.get("size") == "full"
    if not target or other_data or stated.get("synthetic") or stated.get("other_data"):
        return None
    measured = metrics(round_)
    if any(name not in measured for name in (target["metric"], *(target.get("also") or {}))):
        return None
    if is_reached(target, measured):
        return True
    return None if round_.figures.get("stop_reason") in round_.changed_keys else False
