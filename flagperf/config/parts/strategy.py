"""Reads how the ranks share the work: the strategy, its arguments, and the mesh."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from flagperf.config.files.layer import Layer
from flagperf.config.schema.keys import is_under
from flagperf.contract.build import Where, build
from flagperf.contract.mesh import DATA_PARALLEL, STRATEGIES, Mesh
from flagperf.contract.settings import MeshSizes, Parallel
from flagperf.contract.sharding import ARGUMENTS, Sharding, check_plan, check_sizes
from flagperf.errors import ConfigError, meant, nearest

OWN = tuple(field.name for field in fields(Parallel))  # keys of every strategy
TARGET = "parallel._target_"


def with_whole_network(final: Layer, case: Layer, later: Collection[str]) -> Layer:
    """The layer with the mesh of data parallelism, where data parallelism replaces the case's strategy.

    Args:
        later: keys that were set after the case. They stay as they are.
    """
    if not _replaced(final, case) or _path(final.get(TARGET)) not in DATA_PARALLEL:
        return final
    sides = {"dp_replicate": -1, "dp_shard": 1, "tp": 1}
    return final.with_values(
        {key: size for side, size in sides.items() if not is_under(key := f"parallel.mesh.{side}", later)}
    )


def own_arguments(parallel: Mapping[str, Any], final: Layer, case: Layer, later: Collection[str]) -> dict[str, Any]:
    """The section `parallel` without the case's arguments of a replaced strategy."""
    arguments = ARGUMENTS.get(_path(parallel["_target_"]))
    if arguments is None or not _replaced(final, case):
        return dict(parallel)
    allowed = (*OWN, *(field.name for field in fields(arguments)))
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
        _check_arguments(section, ARGUMENTS[target], where)
    if mesh.tp > 1 and ARGUMENTS.get(target) is Sharding:
        _check_division(config, mesh, where)
    mesh.check_global_batch(config, where)
    return mesh


def _check_arguments(section: Mapping[str, Any], takes: type, where: Where) -> None:
    arguments = {name: value for name, value in section.items() if name not in OWN}
    names = [field.name for field in fields(takes)]
    if unknown := next((name for name in arguments if name not in names), None):
        problem, key = "the strategy has no such argument", f"parallel.{unknown}"
        allowed = ", ".join((*OWN[1:], *names))
        raise ConfigError(problem, where=where(key), key=key, allowed=allowed, advice=meant(unknown, names))
    if isinstance(arguments.get("blocks"), str):
        arguments["blocks"] = [arguments["blocks"]]
    build(takes, arguments, "parallel", where)


def _check_division(config: Mapping[str, Any], mesh: Mesh, where: Where) -> None:
    """Refuse layers that the ranks along tp cannot divide, by the sizes in the configuration."""
    plan, network = config["parallel"].get("plan"), config["network"]
    check_plan(plan, where)
    for sizes, prefix in ((network, "network."), (network.get("config"), "network.config.")):
        if isinstance(sizes, Mapping):
            check_sizes(mesh, plan, sizes, where, prefix)
