"""The identity of network, optimizer and schedule, for BUILT and for the statement of a case."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.trainer.identity.stated import stated_case
from flagperf.trainer.pytorch.adapter import adapted, trained_parameters
from flagperf.trainer.pytorch.fingerprint import example_operations, fingerprint
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.recipe import FREE, Groups, optimizer_of, plain, schedule_of, stand_in
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.start.extension import Rename, parameter_renaming


def identities(parts: Parts) -> dict[str, Any]:
    """The identities of the objects that this rank trains with, under the names of the case."""
    rename = parameter_renaming(parts.config)
    return {
        "network": fingerprint(parts.undivided, rename),
        "optimizer": optimizer_of(parts.optimizer, parts.network, rename, partial(_of_all_stages, parts, rename)),
        "schedule": schedule_of(parts),
        **frozen_of(parts),
    }


def frozen_of(parts: Parts) -> dict[str, Any]:
    """Number and checksum of the frozen weights at the start, where the network has adapters."""
    if parts.frozen is None:
        return {}
    frozen = (parameter.numel() for parameter in parts.undivided.parameters() if not parameter.requires_grad)
    return {"frozen": {"parameters": sum(frozen), "checksum": parts.frozen}}


def _of_all_stages(parts: Parts, rename: Rename, groups: Groups) -> Groups:
    """Parameter groups with the parameters of all ranks, in the order of the network before its division."""
    of_ranks = parts.strategy.of_all_stages(groups)
    if len(of_ranks) == 1:
        return groups
    order = {rename(name): number for number, (name, _) in enumerate(parts.undivided.named_parameters())}
    return [
        sorted({member for group in same for member in group}, key=lambda member: order[member[0]])
        for same in zip(*of_ranks)
    ]


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The statement of a case in the size of the configuration. It needs no data."""
    task: Task = component(config, "task")
    network = _meta_network(config)
    operations, note = example_operations(task, network, config, Precision("fp32", torch.device("cpu")))
    if operations is None and note != "the task has no example":  # its forward pass reads values
        network = _case_network(config)
        operations, note = example_operations(task, network, config, Precision("fp32", torch.device("cpu")))
    given = list(trained_parameters(task, network))
    groups = given if isinstance(given[0], Mapping) else [{}]
    task_groups = [{key: plain(group[key]) for key in group if key not in FREE} for group in groups]
    optimizer = optimizer_of(component(config, "optimizer", given), network)
    schedule = component(config, "lr_scheduler", stand_in([{}], config["lr"])) if config.get("lr_scheduler") else None
    return stated_case(
        config, fingerprint(network), operations or None, optimizer, task_groups, schedule, task.operations_within
    )


def _meta_network(config: Mapping[str, Any]) -> torch.nn.Module:
    """The network of a configuration, with shapes only."""
    with torch.device("meta"):
        network = _case_network(config)
    return network.to("meta")  # some libraries insist on the CPU


def _case_network(config: Mapping[str, Any]) -> torch.nn.Module:
    return adapted(component(config, "network"), Settings.read(config).adapter)
