"""Was the target reached, and what ended the training? From the last evaluation and the limits of the configuration."""

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
BESIDE = ("step", "samples", "time", "epoch")  # of EVALUATE: no metrics


def metrics(round_: Round) -> dict[str, Any]:
    """The metrics of the last evaluation of the training, as rank 0 logged them; empty where there was none."""
    if not round_.ranks or not round_.ranks[0].all("FINISHED"):
        raise UnknownError("no log of a rank that finished")
    found = round_.ranks[0].all("EVALUATE")
    return {name: value for name, value in found[-1].value.items() if name not in BESIDE} if found else {}


def is_reached(target: Mapping[str, Any] | None, found: Mapping[str, Any]) -> bool:
    """Whether these metrics are all at least as good as the target wants them."""
    if not target:
        return False
    wanted = {target["metric"]: target["value"], **(target.get("also") or {})}
    is_good = operator.ge if target["direction"] == "higher" else operator.le
    return all(found.get(name) is not None and is_good(found[name], value) for name, value in wanted.items())


def asked_limits(round_: Round) -> str:
    """The limits that the user set."""
    return ", ".join(key for key in LIMITS if key in round_.asked)


def stop_reasons(round_: Round) -> list[str]:
    """What may have ended the training; one of them did."""
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
    """True, False, or None: none applies, its metric was not measured, or a limit of the user came first."""
    stated, target = round_.stated, round_.config.get("target")
    elsewhere = stated.get("sample_data") and round_.config.get("size") == "full"
    if not target or elsewhere or stated.get("synthetic") or stated.get("other_data"):
        return None
    found = metrics(round_)
    if any(name not in found for name in (target["metric"], *(target.get("also") or {}))):
        return None
    if is_reached(target, found):
        return True
    return None if round_.figures.get("stop_reason") in round_.asked else False
