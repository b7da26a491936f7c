"""The statement of a case about its recipe: facts about optimizer and schedule that its configuration does not contain.

`stated(config)` of flagperf/trainer/<framework>/identity.py makes it, with the network; `python -m cases.fingerprint`
writes it to conf/fingerprint/, and a verdict holds BUILT against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flagperf.contract.components import class_path, object_at

GROUP = ("tensors", "parameters", "names")  # the identity of a parameter group


def _stated_optimizer(
    built: Mapping[str, Any], config: Mapping[str, Any], task_groups: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The optimizer: its class, its parameter groups, and hyper-parameters that the configuration does not give.

    Args:
        built: the optimizer as BUILT has it.
        config: of the case.
        task_groups: hyper-parameters that the task gives to each group; they win over those of the configuration.
    """
    groups = built["groups"]
    known = (*GROUP, *config["optimizer"], *task_groups[0])
    return {
        "class": built["class"],
        "defaults": {key: value for key, value in groups[0].items() if key not in known},
        "groups": [
            {**{key: group[key] for key in GROUP}, "own": dict(given)} for group, given in zip(groups, task_groups)
        ],
    }


def _stated_schedule(config: Mapping[str, Any], schedule: Any) -> dict[str, Any]:
    """The function or class that makes the schedule, by its defining module, and the class of the schedule.

    Args:
        config: of the case.
        schedule: None where the case has none.
    """
    if schedule is None:
        return {"made_by": "", "scheduler": None}
    function = object_at(config["lr_scheduler"]["_target_"])
    return {"made_by": f"{function.__module__}.{function.__qualname__}", "scheduler": class_path(schedule)}


def stated_case(
    config: Mapping[str, Any],
    network: Mapping[str, Any],
    operations: float | None,
    optimizer: Mapping[str, Any],
    task_groups: Sequence[Mapping[str, Any]],
    schedule: Any,
    within: float = 0.001,
) -> dict[str, Any]:
    """The statement of a case in the size of a configuration.

    Args:
        network, optimizer: their identities as in BUILT.
        operations: of one forward pass over a sample; None where they are unknown.
        task_groups, schedule: as above.
        within: the share by which the operations of two equal networks may differ.
    """
    return {
        "network": network,
        "forward": None if operations is None else {"operations": round(operations), "within": within},
        "optimizer": _stated_optimizer(optimizer, config, task_groups),
        "schedule": _stated_schedule(config, schedule),
    }
