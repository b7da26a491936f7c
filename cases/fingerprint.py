"""Writes what a case states of its network and recipe, with which a verdict compares what the ranks built.

python -m cases.fingerprint CASE …                    writes conf/fingerprint/<case>.yaml; without CASE, of all cases
python -m cases.fingerprint --config-dir DIR CASE …   likewise of your own cases, below DIR

Run it again when a case's network, optimizer or schedule changes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

from flagperf.config.compose import compose
from flagperf.config.search_path import CONF, options
from flagperf.trainer.components import component
from flagperf.trainer.pytorch.fingerprint import example_operations, fingerprint
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.recipe import FREE, class_of, optimizer_of, plain, stand_in
from flagperf.trainer.pytorch.task import Task

SIZES = ("full", "tiny")
GROUP = ("tensors", "parameters", "names")  # what identifies a parameter group
HEADER = """\
# python -m cases.fingerprint {case}
#
# What the network and the recipe of {case} are, in each size. A closed run that built something else is INVALID.
# Written by this command from the case itself; docs/adding-a-case.md says what each key is.
"""


def main() -> None:
    """Write the files of the cases that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config-dir", type=Path)
    parser.add_argument("case", nargs="*")
    given = parser.parse_args()
    folders = [given.config_dir] if given.config_dir else []
    for case in given.case or options("model", [given.config_dir or CONF]):
        path = Path(given.config_dir or CONF, "fingerprint", f"{case}.yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(case, folders), encoding="utf-8")
        print(path)


def text(case: str, folders: Iterable[Path] = ()) -> str:
    """The content of a case's file."""
    sizes = {size: stated(config_of(case, size, folders)) for size in SIZES}
    return HEADER.format(case=case) + yaml.safe_dump(sizes, sort_keys=False, width=110)


def config_of(case: str, size: str, folders: Iterable[Path] = ()) -> Mapping[str, Any]:
    """The configuration of a case in a size. No data is needed."""
    return compose([f"model={case}", f"size={size}", "dry_run=true"], list(folders)).config


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What one size of a case states."""
    task: Task = component(config, "task")
    network = without_values(config)
    operations, note = example_operations(task, network, config, Precision("fp32", torch.device("cpu")))
    if operations is None and note != "the task has no example":  # it looks at values: they must be there
        network = component(config, "network")
        operations, note = example_operations(task, network, config, Precision("fp32", torch.device("cpu")))
    groups = task.parameters(network)
    return {
        "network": fingerprint(network),
        "forward": {"operations": round(operations), "within": task.operations_within} if operations else None,
        "optimizer": optimizer(config, network, groups),
        "schedule": schedule(config),
    }


def without_values(config: Mapping[str, Any]) -> torch.nn.Module:
    """The network of a configuration, with shapes only."""
    with torch.device("meta"):
        network: torch.nn.Module = component(config, "network")
    return network.to("meta")  # some libraries insist on the CPU


def optimizer(config: Mapping[str, Any], network: torch.nn.Module, parameters: Any) -> dict[str, Any]:
    """The optimizer: its class, its parameter groups, and hyper-parameters that the configuration does not give.

    `own` of a group is what the task says of it; it counts before what the configuration says of all.
    """
    given = list(parameters)
    own = [{key: plain(group[key]) for key in group if key not in FREE} if is_group(group) else {} for group in given]
    found = optimizer_of(component(config, "optimizer", given), network)
    groups = found["groups"]
    defaults = {key: value for key, value in groups[0].items() if key not in (*GROUP, *config["optimizer"], *own[0])}
    return {
        "class": found["class"],
        "defaults": defaults,
        "groups": [
            {key: group[key] for key in GROUP} | {"own": said} for group, said in zip(groups, own, strict=False)
        ],
    }


def is_group(given: Any) -> bool:
    """Whether a task gives the optimizer groups and not parameters."""
    return isinstance(given, Mapping)


def schedule(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the schedule, by the module that defines it, and the class that it makes."""
    from hydra.utils import get_object

    if config.get("lr_scheduler") is None:
        return {"made_by": "", "scheduler": None}
    maker = get_object(config["lr_scheduler"]["_target_"])
    made = component(config, "lr_scheduler", stand_in([{}], config["lr"]))
    return {"made_by": f"{maker.__module__}.{maker.__qualname__}", "scheduler": class_of(made)}


if __name__ == "__main__":
    main()
