"""The arguments of the shipped strategies, and their checks, for launcher and ranks: docs/parallel.md says more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

from typing_extensions import Annotated

from flagperf.contract.fields import Count, CountFrom0, Field
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
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")  # names of the number of experts of a layer
WITHIN_TP = ("sequence_parallel", "loss_parallel")  # arguments that need ranks along tp
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
        sequence_parallel: between layers that ranks along `tp` compute together, each rank has a part of the sequence.
        loss_parallel: each rank along `tp` keeps its part of the logits, and the loss is computed from the parts.
        stages: of each rank along `pp`. 1: the schedule is 1F1B; more: interleaved 1F1B.
    """

    blocks: tuple[str, ...] = ()
    reshard_after_forward: bool = True
    prefetch: CountFrom0 = 0
    plan: Mapping[str, LayerStyle] | None = None
    sequence_parallel: bool = False
    loss_parallel: bool = False
    stages: Count = 1


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


def check_within_tp(mesh: Mesh, sharding: Sharding, length: Any, where: Callable[[str], str]) -> None:
    """Refuse sequence and loss parallelism without ranks along `tp`, and sequences that the ranks cannot divide.

    Args:
        length: tokens of a sequence; None: not known.

    Raises:
        ConfigError: `tp` does not fit.
    """
    for name in WITHIN_TP:
        if getattr(sharding, name) and mesh.tp == 1:
            key = f"parallel.{name}"
            allowed = f"false, or {KEY}.tp above 1"
            raise ConfigError("there are no ranks along tp", where=where(key), key=key, given="true", allowed=allowed)
    if sharding.sequence_parallel and isinstance(length, int) and length % mesh.tp:
        raise ConfigError(
            "the ranks along tp cannot divide a sequence evenly",
            where=where(f"{KEY}.tp"),
            key=f"{KEY}.tp",
            given=mesh.tp,
            allowed=f"a divisor of {length}, the seq_length",
            advice="or parallel.sequence_parallel=false",
        )


def check_context(mesh: Mesh, sharding: Sharding, length: Any, where: Callable[[str], str]) -> None:
    """Refuse sequences that the ranks along `cp` cannot divide: each computes two equal pieces.

    Args:
        length: tokens of a sequence; None: the case has no sequences of one length.

    Raises:
        ConfigError: `cp` does not fit.
    """
    if mesh.cp == 1:
        return
    key = f"{KEY}.cp"
    refusal = partial(ConfigError, where=where(key), key=key, given=mesh.cp)
    pieces = 2 * mesh.cp * (mesh.tp if sharding.sequence_parallel else 1)
    if not isinstance(length, int):
        allowed = "1, or a language model with a seq_length"
        raise refusal("ranks along cp divide sequences of one length, and this case has none", allowed=allowed)
    if length % pieces:
        sides = "2 x cp x tp, with sequence_parallel" if sharding.sequence_parallel else "2 x cp"
        allowed = f"a seq_length that is a multiple of {pieces} ({sides}); the case has {length}"
        raise refusal("the ranks along cp cannot divide a sequence evenly", allowed=allowed)


def check_experts(mesh: Mesh, network: Mapping[str, Any], where: Callable[[str], str]) -> None:
    """Refuse a network without experts, or with a number of experts that the ranks along `ep` cannot divide.

    Args:
        network: section of the configuration. A size that is not there keeps its default, which the ranks check.

    Raises:
        ConfigError: `ep` does not fit.
    """
    if mesh.ep == 1:
        return
    key, sizes = f"{KEY}.ep", network.get("config") or {}
    for side in ("tp", "pp"):
        if getattr(mesh, side) > 1:
            raise ConfigError(
                f"flagperf cannot divide experts over ranks along ep and {side} together",
                where=where(key),
                key=key,
                given=f"ep={mesh.ep}, {side}={getattr(mesh, side)}",
                allowed=f"ep=1 or {side}=1; ep combines with dp_replicate, dp_shard and cp",
            )
    if not has_experts(sizes):
        problem, allowed = "the network has no experts", "1, or a case with experts, such as mixtral_8x7b"
        raise ConfigError(problem, where=where(key), key=key, given=mesh.ep, allowed=allowed)
    for name in (name for name in EXPERTS if isinstance(sizes.get(name), int)):
        if sizes[name] % mesh.ep:
            raise ConfigError(
                "the ranks along ep cannot divide the experts evenly",
                where=where(key),
                key=key,
                given=mesh.ep,
                allowed=f"a divisor of {sizes[name]}, the network.config.{name}",
            )


def has_experts(sizes: Mapping[str, Any]) -> bool:
    """Whether a network with these sizes is a mixture of experts."""
    return "num_experts_per_tok" in sizes


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
