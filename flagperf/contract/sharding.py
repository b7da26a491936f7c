"""The arguments of the shipped strategies, and their checks, for launcher and ranks: docs/parallel.md says more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from typing_extensions import Annotated

from flagperf.contract.fields import CountFrom0, Field
from flagperf.contract.mesh import DATA_PARALLEL, KEY, STRATEGIES, Mesh
from flagperf.errors import ConfigError

PLAN = "parallel.plan"
STYLES = (
    "colwise",
    "colwise_gather_output",
    "colwise_rep",
    "rowwise",
    "rowwise_rep",
    "embedding_rowwise",
    "replicated",
)
LayerStyle = Annotated[str, Field(str, options=STYLES)]

HEADS = ("num_attention_heads", "num_key_value_heads")
WIDTHS = ("intermediate_size",)
# Layers of one module that ranks divide all or not at all → the sizes that the ranks then divide.
DIVIDED_TOGETHER: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("q_proj", "k_proj", "v_proj", "o_proj"): HEADS,
    ("query", "key", "value"): HEADS,
    ("gate_proj", "up_proj", "down_proj"): WIDTHS,
}


@dataclass(frozen=True)
class Undivided:
    """Arguments of DDP beside the mesh: none, since each rank holds the whole network."""


@dataclass(frozen=True)
class Sharding:
    """Arguments of Sharded beside the mesh.

    Attributes:
        blocks: modules that are gathered at a time, by class or path (pytorch/parallel/blocks.py). Parameters outside
            of them are gathered with the whole network.
        reshard_after_forward: drop a block's gathered parameters after its forward pass, and gather them again for the
            backward pass: less memory, more communication.
        prefetch: number of blocks that are gathered ahead of the computed one, forward and backward; 0: PyTorch's
            default, which gathers one ahead in the backward pass.
        plan: path of a module → how its ranks compute it (pytorch/parallel/tensors.py); None: the network's own plan.
    """

    blocks: tuple[str, ...] = ()
    reshard_after_forward: bool = True
    prefetch: CountFrom0 = 0
    plan: Mapping[str, LayerStyle] | None = None


# Path of a shipped strategy → the arguments that it takes beside the mesh.
ARGUMENTS: Mapping[str, type] = {
    **dict.fromkeys(DATA_PARALLEL, Undivided),
    **dict.fromkeys((f"{STRATEGIES}.Sharded", f"{STRATEGIES}.sharded.Sharded"), Sharding),
}


def check_plan(plan: Mapping[str, str] | None, where: Callable[[str], str]) -> None:
    """Refuse a plan that divides a layer, but not the layers that must be divided with it.

    Raises:
        ConfigError: the plan lacks a layer.
    """
    if plan is None:
        return
    for module in plan:
        parent, _, name = module.rpartition(".")
        for names in DIVIDED_TOGETHER:
            missing = [other for other in names if f"{parent}.{other}" not in plan]
            if name in names and missing:
                raise ConfigError(
                    "the plan divides a part of the layers that ranks compute together",
                    where=where(PLAN),
                    key=PLAN,
                    given=module,
                    allowed=f"{', '.join(names)} of one module together, or none of them",
                    advice=f"add {', '.join(f'{parent}.{other}' for other in missing)}",
                )


def check_sizes(
    mesh: Mesh, plan: Mapping[str, str] | None, sizes: Mapping[str, Any], where: Callable[[str], str], prefix: str = ""
) -> None:
    """Refuse a network whose heads or widths the ranks along `tp` cannot divide.

    Args:
        plan: None: the network's own, which divides all of them.
        sizes: the network's, by name.
        prefix: of the dotted keys of the sizes, for the message.

    Raises:
        ConfigError: a size is no multiple of `tp`.
    """
    for name in dict.fromkeys(_divided(plan)):
        size = sizes.get(name)
        if isinstance(size, int) and size % mesh.tp:
            raise ConfigError(
                "the ranks along tp cannot divide the network evenly",
                where=where(f"{KEY}.tp"),
                key=f"{KEY}.tp",
                given=mesh.tp,
                allowed=f"a divisor of {size}, the {prefix}{name}",
            )


def _divided(plan: Mapping[str, str] | None) -> Iterator[str]:
    """The names of the sizes that a plan divides."""
    for names, sizes in DIVIDED_TOGETHER.items():
        if plan is None or any(module.rpartition(".")[2] in names for module in plan):
            yield from sizes
