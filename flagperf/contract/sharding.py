"""What the shipped strategies may be given, as launcher and ranks know it: docs/parallel.md says more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from typing_extensions import Annotated

from flagperf.contract.fields import CountFrom0, Field
from flagperf.contract.mesh import DATA_PARALLEL, KEY, STRATEGIES, Mesh
from flagperf.errors import ConfigError

PLAN = "parallel.plan"
WAYS = ("colwise", "colwise_gather_output", "colwise_rep", "rowwise", "rowwise_rep", "embedding_rowwise", "replicated")
Way = Annotated[str, Field(str, options=WAYS)]

HEADS = ("num_attention_heads", "num_key_value_heads")
WIDTHS = ("intermediate_size",)
# Layers of one module that ranks compute together, or each as a whole → the sizes that the ranks then divide.
TOGETHER: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("q_proj", "k_proj", "v_proj", "o_proj"): HEADS,
    ("query", "key", "value"): HEADS,
    ("gate_proj", "up_proj", "down_proj"): WIDTHS,
}


@dataclass(frozen=True)
class Whole:
    """Arguments of DDP: it has none beside the mesh."""


@dataclass(frozen=True)
class Sharding:
    """Arguments of Sharded beside the mesh.

    Attributes:
        blocks: what is gathered at a time, by class or place (pytorch/parallel/blocks.py). What lies in none is
            gathered with the whole.
        reshard_after_forward: drop a block's gathered parameters after its forward pass, and gather them again for the
            backward pass: less memory, more communication.
        prefetch: so many blocks are gathered ahead of the one that is computed, forward and backward; 0: as PyTorch
            does by itself, which gathers one ahead in the backward pass.
        plan: place → how its ranks compute it (pytorch/parallel/tensors.py); None: the network's own plan.
    """

    blocks: tuple[str, ...] = ()
    reshard_after_forward: bool = True
    prefetch: CountFrom0 = 0
    plan: Mapping[str, Way] | None = None


# Path of a shipped strategy → the arguments that it takes beside the mesh.
ARGUMENTS: Mapping[str, type] = {
    **dict.fromkeys(DATA_PARALLEL, Whole),
    **dict.fromkeys((f"{STRATEGIES}.Sharded", f"{STRATEGIES}.sharded.Sharded"), Sharding),
}


def check_plan(plan: Mapping[str, str] | None, where: Callable[[str], str]) -> None:
    """Refuse a plan that divides a layer, but not those that must be divided with it.

    Raises:
        ConfigError: it does.
    """
    if plan is None:
        return
    for place in plan:
        parent, _, name = place.rpartition(".")
        for names in TOGETHER:
            left = [other for other in names if f"{parent}.{other}" not in plan]
            if name in names and left:
                raise ConfigError(
                    "the plan divides a part of the layers that ranks compute together",
                    where=where(PLAN),
                    key=PLAN,
                    given=place,
                    allowed=f"{', '.join(names)} of one module together, or none of them",
                    advice=f"add {', '.join(f'{parent}.{other}' for other in left)}",
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
        ConfigError: they cannot.
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
    for names, sizes in TOGETHER.items():
        if plan is None or any(place.rpartition(".")[2] in names for place in plan):
            yield from sizes
