"""Writes what a case on PaddlePaddle states of its network and recipe, with which a verdict compares what ranks built.

.venv-paddle/bin/python -m cases.paddle_fingerprint CASE …    writes conf/fingerprint/paddle/<case>.yaml

Run it again when a case's network, optimizer or schedule changes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paddle
import yaml

from flagperf.config.compose import compose
from flagperf.config.search_path import CONF
from flagperf.trainer.components import component
from flagperf.trainer.digest import path_of
from flagperf.trainer.paddle.built import fingerprint, optimizer_of

SIZES = ("full", "tiny")
GROUP = ("tensors", "parameters", "names")  # what identifies a parameter group
HEADER = """\
# .venv-paddle/bin/python -m cases.paddle_fingerprint {case}
#
# What the network and the recipe of {case} on PaddlePaddle are. A closed run of something else is INVALID.
# Written by this command from the case itself; docs/adding-a-case.md tells of it.
"""


def main(cases: list[str]) -> None:
    """Write the files of the cases."""
    for case in cases:
        path = Path(CONF, "fingerprint/paddle", f"{case}.yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(case), encoding="utf-8")
        print(path)


def text(case: str) -> str:
    """The content of a case's file."""
    given = [f"model={case}", "framework=paddle", "dry_run=true"]
    sizes = {size: stated(compose([*given, f"size={size}"]).config) for size in SIZES}
    return HEADER.format(case=case) + yaml.safe_dump(sizes, sort_keys=False, width=110)


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What one size of a case states."""
    task = component(config, "task")
    with paddle.LazyGuard():  # shapes only
        network = component(config, "network")
    operations, groups = task.operations(config), task.parameters(network)
    return {
        "network": fingerprint(network),
        "forward": None if operations is None else {"operations": round(operations), "within": 0.001},
        "optimizer": optimizer(config, network, groups),
        "schedule": schedule(config),
    }


def optimizer(config: Mapping[str, Any], network: paddle.nn.Layer, groups: Any) -> dict[str, Any]:
    """The optimizer: its class, its parameter groups, and hyper-parameters that the configuration does not give.

    `own` of a group is what the task says of it; it counts before what the configuration says of all.
    """
    said = [{key: value for key, value in group.items() if key != "params"} for group in map(dict, groups)]
    found = optimizer_of(component(config, "optimizer", learning_rate=1.0, parameters=groups), network)
    first = found["groups"][0]
    known = (*GROUP, *config["optimizer"], *said[0])
    return {
        "class": found["class"],
        "defaults": {key: value for key, value in first.items() if key not in known},
        "groups": [
            {key: group[key] for key in GROUP} | {"own": own} for group, own in zip(found["groups"], said, strict=True)
        ],
    }


def schedule(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the schedule, and the class that it makes."""
    made = component(config, "lr_scheduler", config["lr"])
    return {
        "made_by": "" if made is None else config["lr_scheduler"]["_target_"],
        "scheduler": None if made is None else path_of(made),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
