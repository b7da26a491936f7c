"""The pipeline of a job: how long its ranks wait for each other, and the settings that it cannot be combined with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from flagperf.contract.mesh import KEY, Mesh
from flagperf.contract.sharding import Sharding, has_experts
from flagperf.errors import ConfigError

# Settings → their values that a pipeline supports.
SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "precision": ("fp32", "tf32", "amp_bf16"),  # a scale of the loss would have to be the same in all stages
    "random_numbers": ("device",),
}


def bubble(ranks: int, stages: int, micro_batches: int) -> float:
    """The share of a step in which a rank waits, where all stages take the same time and sending takes none.

    A rank computes stages x micro_batches times, and waits as long as ranks - 1 of these computations take: section
    2.2 of https://arxiv.org/abs/2104.04473, as a share of the whole step.

    Args:
        ranks: along `pp`.
        stages: of each rank.
        micro_batches: of a step.
    """
    return (ranks - 1) / (stages * micro_batches + ranks - 1)


def bubble_of(config: Mapping[str, Any]) -> float | None:
    """The bubble of a resolved configuration; None without a pipeline."""
    section = config["parallel"]
    mesh = Mesh.of(section["mesh"], config["nnodes"] * config["nproc"])
    return bubble(mesh.pp, section.get("stages", 1), config["gradient_accumulation_steps"]) if mesh.pp > 1 else None


def check_pipeline(mesh: Mesh, sharding: Sharding, config: Mapping[str, Any], where: Callable[[str], str]) -> None:
    """Refuse settings that a pipeline cannot combine.

    Raises:
        ConfigError: a setting or a size of the network does not fit.
    """
    if mesh.pp == 1:
        if sharding.stages > 1:
            raise _refusal("there are no ranks along pp", "parallel.stages", sharding.stages, "1", where)
        return
    for key, values in SUPPORTED.items():
        if config[key] not in values:
            raise _refusal("a pipeline cannot do this", key, config[key], ", ".join(values), where)
    if config["compile"] and config["compile_modules"] is None:
        problem, allowed = "a pipeline compiles blocks, not the whole network", "the class of a block"
        raise _refusal(problem, "compile_modules", None, allowed, where)
    if not sharding.blocks:
        problem, allowed = "a pipeline divides the blocks of a network", "a class or path of modules"
        raise _refusal(problem, "parallel.blocks", "none", allowed, where)
    _check_network(mesh.pp * sharding.stages, config["network"].get("config") or {}, where)
    _check_rounds(mesh.pp, sharding.stages, config["gradient_accumulation_steps"], where)


def _check_network(stages: int, sizes: Mapping[str, Any], where: Callable[[str], str]) -> None:
    layers = sizes.get("num_hidden_layers")
    if isinstance(layers, int) and layers < stages:
        problem, key = "the pipeline has more stages than the network has layers", f"{KEY}.pp"
        allowed = f"pp x parallel.stages at most {layers}, the network.config.num_hidden_layers"
        raise _refusal(problem, key, f"{stages} stages", allowed, where)
    if sizes.get("tie_word_embeddings"):
        problem = "embedding and output layer are one parameter, and the first and the last stage need it"
        raise _refusal(problem, f"{KEY}.pp", f"{stages} stages", "1", where)
    if has_experts(sizes):
        problem = (
            "only the last stage has the loss, and each layer of experts adds the balance of its loads to the loss"
        )
        raise _refusal(problem, f"{KEY}.pp", f"{stages} stages", "1", where)


def _check_rounds(ranks: int, stages: int, micro_batches: Any, where: Callable[[str], str]) -> None:
    """1F1B needs a micro batch for each rank at least; interleaved 1F1B takes them in rounds of one a rank."""
    key, problem = "gradient_accumulation_steps", "the schedule needs another number of micro batches"
    if isinstance(micro_batches, int) and (micro_batches < ranks or (stages > 1 and micro_batches % ranks)):
        allowed = (
            f"a multiple of {ranks}, the ranks along pp" if stages > 1 else f"{ranks} (the ranks along pp) or more"
        )
        raise _refusal(problem, key, micro_batches, allowed, where)


def _refusal(problem: str, key: str, given: Any, allowed: str, where: Callable[[str], str]) -> ConfigError:
    advice = "docs/parallel.md names what a pipeline can be combined with"
    return ConfigError(problem, where=where(key), key=key, given=given, allowed=allowed, advice=advice)
