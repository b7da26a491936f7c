"""What data sets hold, and whether those of training and evaluation fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.extent import NOT_THE_CASE, other_data
from flagperf.contract.sample_data import is_sample_data
from flagperf.errors import ConfigError


def counts(train: Any, evaluated: Any) -> dict[str, int]:
    """What the data sets hold: samples, and classes where the training data names them in `classes`."""
    found = {"train": len(train)}
    if evaluated is not None:
        found["eval"] = len(evaluated)
    if getattr(train, "classes", None) is not None:
        found["classes"] = len(train.classes)
    return found


def check_classes(train_data: Any, eval_data: Any) -> None:
    """Refuse an evaluation on other classes than the training's, where the data sets name theirs in `classes`.

    Folders are numbered in the order of their names: one that a split lacks would shift the labels of all that follow.
    """
    trained, evaluated = (getattr(data, "classes", None) for data in (train_data, eval_data))
    if trained is None or evaluated is None or list(trained) == list(evaluated):
        return
    missing = {
        "missing in the evaluation data": [str(name) for name in trained if name not in evaluated],
        "missing in the training data": [str(name) for name in evaluated if name not in trained],
    }
    found = [
        f"{len(names)} {where}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        for where, names in missing.items()
        if names
    ]
    raise ConfigError(
        "training and evaluation data have different classes",
        where=str(getattr(eval_data, "root", "config.yaml")),
        key="data_dir",
        given="; ".join(found) or "the same classes in another order",
        allowed="the same classes in both splits",
    )


def print_other_data(config: Mapping[str, Any], train: Any, evaluated: Any) -> None:
    """Print a line where these data sets are not the data of the case. Refuse them where they do not fit each other."""
    check_classes(train, evaluated)
    other = other_data(config, counts(train, evaluated))
    if other and not is_sample_data(config["data_dir"]):
        print(f"{NOT_THE_CASE}{other}; a run on it is SUSPECT and claims no target")
