"""Reads how the ranks share the work: the strategy, its arguments, and the mesh."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from flagperf.config.files.layer import Layer
from flagperf.config.schema.keys import is_under
from flagperf.contract.build import Where, build
from flagperf.contract.mesh import DATA_PARALLEL, SIDES, STRATEGIES, Mesh
from flagperf.contract.pipeline import check_pipeline
from flagperf.contract.settings import MeshSizes, Parallel
from flagperf.contract.sharding import (
    ARGUMENTS,
    Sharding,
    check_context,
    check_experts,
    check_plan,
    check_sizes,
    check_within_tp,
)
from flagperf.errors import ConfigError, meant, nearest

COMMON = tuple(field.name for field in fields(Parallel))  # keys of every strategy
TARGET = "parallel._target_"
DATA_SIDES = ("dp_replicate", "dp_shard")  # ranks along them compute whole layers


def with_whole_network(final: Layer, case: Layer, later: Collection[str]) -> Layer:
    """The layer with the mesh of data parallelism, where data parallelism replaces the case's strategy.

    Args:
        later: keys that were set after the case. They stay as they are.
    """
    if not _replaced(final, case) or _path(final.get(TARGET)) not in DATA_PARALLEL:
        return final
    sides = {**dict.fromkeys(SIDES, 1), "dp_replicate": -1}
    return final.with_values(
        {key: size for side, size in sides.items() if not is_under(key := f"parallel.mesh.{side}", later)}
    )


def own_arguments(parallel: Mapping[str, Any], final: Layer, case: Layer, later: Collection[str]) -> dict[str, Any]:
    """The section `parallel` without the case's arguments of a replaced strategy."""
    arguments = ARGUMENTS.get(_path(parallel["_target_"]))
    if arguments is None or not _replaced(final, case):
        return dict(parallel)
    allowed = (*COMMON, *(field.name for field in fields(arguments)))
    return {name: value for name, value in parallel.items() if name in allowed or is_under(f"parallel.{name}", later)}


def _replaced(final: Layer, case: Layer) -> bool:
    return _path(final.get(TARGET)) != _path(case.get(TARGET))


def _path(target: str | None) -> str:
    return target or DATA_PARALLEL[0]


def parallel(config: Mapping[str, Any], where: Where) -> Mesh:
    """The mesh of the job, checked against its strategy, its network and the case's global batch.

    Raises:
        ConfigError: the mesh does not fit, or the strategy has no such argument.
    """
    section, target = config["parallel"], _path(config["parallel"]["_target_"])
    build(MeshSizes, section["mesh"], "parallel.mesh", where)
    mesh = Mesh.of(section["mesh"], config["nnodes"] * config["nproc"], where)
    if target.startswith(f"{STRATEGIES}.") and target not in ARGUMENTS:
        problem, advice = "no such strategy", nearest(target, ARGUMENTS)
        raise ConfigError(problem, where=where(TARGET), key=TARGET, given=target, advice=advice)
    if target in DATA_PARALLEL:
        mesh.check_undivided(where)
    if target in ARGUMENTS:
        arguments = _arguments(section, ARGUMENTS[target], where)
        if isinstance(arguments, Sharding):
            check_within_tp(mesh, arguments, config.get("seq_length"), where)
            check_context(mesh, arguments, config.get("seq_length"), where)
            check_experts(mesh, config["network"], where)
            check_pipeline(mesh, arguments, config, where)
    _check_adapter(config, mesh, where)
    _check_float8(config, target, mesh, where)
    if mesh.tp > 1 and ARGUMENTS.get(target) is Sharding:
        _check_division(config, mesh, where)
    mesh.check_global_batch(config, where)
    return mesh


def _check_adapter(config: Mapping[str, Any], mesh: Mesh, where: Where) -> None:
    """Refuse adapters where ranks compute parts of layers, with a moving average of the weights, and with float8."""
    if not config["adapter"]["modules"]:
        return
    divided = next((side for side, size in vars(mesh).items() if size > 1 and side not in DATA_SIDES), None)
    if divided:
        raise ConfigError(
            "adapters need whole layers on each rank",
            where=where("adapter.modules"),
            key=f"parallel.mesh.{divided}",
            given=getattr(mesh, divided),
            allowed=f"1, with any {' and '.join(DATA_SIDES)}",
        )
    if config["ema"]["decay"] is not None:
        raise ConfigError(
            "adapters have no moving average of the weights",
            where=where("ema.decay"),
            key="ema.decay",
            given=config["ema"]["decay"],
            allowed="null with adapter.modules",
        )
    if config["float8_modules"] is not None:  # torchao's layers take the place of those that have adapters
        raise ConfigError(
            "layers that multiply in float8 cannot have adapters",
            where=where("float8_modules"),
            key="float8_modules",
            given=config["float8_modules"],
            allowed="null with adapter.modules",
        )


def _check_float8(config: Mapping[str, Any], target: str, mesh: Mesh, where: Where) -> None:
    """Refuse weights that are gathered in float8 where no rank gathers whole layers."""
    key, recipe = "float8_recipe", config["float8_recipe"]
    if recipe != "tensorwise_gathered" or config["float8_modules"] is None:
        return
    divided = [side for side, size in vars(mesh).items() if size > 1 and side not in DATA_SIDES]
    if ARGUMENTS.get(target) is not Sharding or divided:
        raise ConfigError(
            "only Sharded, over dp_replicate and dp_shard, gathers weights in float8",
            where=where(key),
            key=key,
            given=" with ".join((recipe, *divided)) if divided else f"{recipe} with {target}",
            allowed="tensorwise, rowwise",
        )


def _arguments(section: Mapping[str, Any], takes: type, where: Where) -> Any:
    """The arguments of a shipped strategy, beside the mesh. Raises ConfigError."""
    arguments = {name: value for name, value in section.items() if name not in COMMON}
    names = [field.name for field in fields(takes)]
    if unknown := next((name for name in arguments if name not in names), None):
        problem, key = "the strategy has no such argument", f"parallel.{unknown}"
        allowed = ", ".join((*COMMON[1:], *names))
        raise ConfigError(problem, where=where(key), key=key, allowed=allowed, advice=meant(unknown, names))
    if isinstance(arguments.get("blocks"), str):
        arguments["blocks"] = [arguments["blocks"]]
    return build(takes, arguments, "parallel", where)


def _check_division(config: Mapping[str, Any], mesh: Mesh, where: Where) -> None:
    """Refuse layers that the ranks along tp cannot divide, by the sizes in the configuration."""
    plan, network = config["parallel"].get("plan"), config["network"]
    check_plan(plan, where)
    for sizes, prefix in ((network, "network."), (network.get("config"), "network.config.")):
        if isinstance(sizes, Mapping):
            check_sizes(mesh, plan, sizes, where, prefix)
