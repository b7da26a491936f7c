"""What a case states of its recipe: what its optimizer and schedule are, beside what its configuration says of them.

`stated(config)` of flagperf/trainer/<framework>/identity.py makes it, with the network; `python -m cases.fingerprint`
writes it to conf/fingerprint/, and a verdict holds BUILT against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flagperf.contract.components import object_at, path_of

GROUP = ("tensors", "parameters", "names")  # what identifies a parameter group


def stated_optimizer(
    found: Mapping[str, Any], config: Mapping[str, Any], own: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The optimizer: its class, its parameter groups, and hyper-parameters that the configuration does not give.

    Args:
        found: the optimizer as BUILT has it.
        config: of the case.
        own: what the task says of each group; it counts before what the configuration says of all.
    """
    groups = found["groups"]
    known = (*GROUP, *config["optimizer"], *own[0])
    return {
        "class": found["class"],
        "defaults": {key: value for key, value in groups[0].items() if key not in known},
        "groups": [{**{key: group[key] for key in GROUP}, "own": dict(said)} for group, said in zip(groups, own)],
    }


def stated_schedule(config: Mapping[str, Any], made: Any) -> dict[str, Any]:
    """What makes the schedule, by the module that defines it, and the class that it makes.

    Args:
        config: of the case.
        made: the schedule; None: the case has none.
    """
    if made is None:
        return {"made_by": "", "scheduler": None}
    maker = object_at(config["lr_scheduler"]["_target_"])
    return {
        "made_by": f"{maker.__module__}.{maker.__qualname__}",
        "scheduler": path_of(made),
    }


def stated_case(
    config: Mapping[str, Any],
    network: Mapping[str, Any],
    operations: float | None,
    optimizer: Mapping[str, Any],
    own: Sequence[Mapping[str, Any]],
    schedule: Any,
    within: float = 0.001,
) -> dict[str, Any]:
    """What a case states in the size of a configuration.

    Args:
        network: what identifies it.
        operations: of one forward pass over a sample; None where nobody says.
        optimizer, own, schedule: as above.
        within: the share by which the operations of two networks alike may differ.
    """
    return {
        "network": network,
        "forward": None if operations is None else {"operations": round(operations), "within": within},
        "optimizer": stated_optimizer(optimizer, config, own),
        "schedule": stated_schedule(config, schedule),
    }
