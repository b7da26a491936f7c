"""Writes what a case on MindSpore states of its network and recipe, with which a verdict compares what ranks built.

.venv-mindspore/bin/python -m cases.mindspore_fingerprint CASE …    writes conf/fingerprint/mindspore/<case>.yaml

Run it again when a case's network, optimizer or schedule changes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.compose import compose
from flagperf.config.search_path import CONF
from flagperf.trainer.components import component
from flagperf.trainer.digest import path_of
from flagperf.trainer.mindspore.built import fingerprint, optimizer_of

SIZES = ("full", "tiny")
GROUP = ("tensors", "parameters", "names")  # what identifies a parameter group
HEADER = """\
# .venv-mindspore/bin/python -m cases.mindspore_fingerprint {case}
#
# What the network and the recipe of {case} on MindSpore are. A closed run of something else is INVALID.
# Written by this command from the case itself; docs/adding-a-case.md tells of it.
"""


def main(cases: list[str]) -> None:
    """Write the files of the cases."""
    for case in cases:
        path = Path(CONF, "fingerprint/mindspore", f"{case}.yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(case), encoding="utf-8")
        print(path)


def text(case: str) -> str:
    """The content of a case's file."""
    given = [f"model={case}", "framework=mindspore", "dry_run=true"]
    sizes = {size: stated(compose([*given, f"size={size}"]).config) for size in SIZES}
    return HEADER.format(case=case) + yaml.safe_dump(sizes, sort_keys=False, width=110)


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What one size of a case states."""
    task, network = component(config, "task"), component(config, "network")
    operations = task.operations(network)
    return {
        "network": fingerprint(network),
        "forward": None if operations is None else {"operations": round(operations), "within": 0.001},
        "optimizer": optimizer(config, task.parameters(network)),
        "schedule": schedule(config),
    }


def optimizer(config: Mapping[str, Any], parameters: Any) -> dict[str, Any]:
    """The optimizer: its class, its one group, and hyper-parameters that the configuration does not give."""
    found = optimizer_of(component(config, "optimizer", parameters, learning_rate=1.0))
    (group,) = found["groups"]
    return {
        "class": found["class"],
        "defaults": {key: value for key, value in group.items() if key not in (*GROUP, *config["optimizer"])},
        "groups": [{key: group[key] for key in GROUP} | {"own": {}}],
    }


def schedule(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the schedule, and the class that it makes."""
    made = component(config, "lr_scheduler", config["lr"], 1)
    return {
        "made_by": "" if made is None else config["lr_scheduler"]["_target_"],
        "scheduler": None if made is None else path_of(made),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
