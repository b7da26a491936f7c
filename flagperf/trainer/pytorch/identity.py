"""What identifies network, optimizer and schedule: in BUILT, and as a case states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from flagperf.contract.components import component
from flagperf.trainer.identity.stated import stated_case
from flagperf.trainer.pytorch.fingerprint import example_operations, fingerprint
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.recipe import FREE, optimizer_of, plain, schedule_of, stand_in
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.start.extension import renaming


def identities(parts: Parts) -> dict[str, Any]:
    """What this rank really built, after every import and plug-in, under the names of the case."""
    rename = renaming(parts.config)
    return {
        "network": fingerprint(parts.whole, rename),
        "optimizer": optimizer_of(parts.optimizer, parts.network, rename),
        "schedule": schedule_of(parts),
    }


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a case states in the size of the configuration. No data is needed."""
    task: Task = component(config, "task")
    network = without_values(config)
    operations, note = example_operations(task, network, config, Precision("fp32", torch.device("cpu")))
    if operations is None and note != "the task has no example":  # it looks at values: they must be there
        network = component(config, "network")
        operations, note = example_operations(task, network, config, Precision("fp32", torch.device("cpu")))
    given = list(task.parameters(network))
    groups = given if isinstance(given[0], Mapping) else [{}]
    own = [{key: plain(group[key]) for key in group if key not in FREE} for group in groups]
    optimizer = optimizer_of(component(config, "optimizer", given), network)
    schedule = component(config, "lr_scheduler", stand_in([{}], config["lr"])) if config.get("lr_scheduler") else None
    return stated_case(
        config, fingerprint(network), operations or None, optimizer, own, schedule, task.operations_within
    )


def without_values(config: Mapping[str, Any]) -> torch.nn.Module:
    """The network of a configuration, with shapes only."""
    with torch.device("meta"):
        network: torch.nn.Module = component(config, "network")
    return network.to("meta")  # some libraries insist on the CPU
