"""The strategies by which ranks share the work (docs/parallel.md).

strategy.py     the interface of a strategy; read this first
ddp.py          data parallelism: each rank has the whole network
sharded.py      the network divided over ranks, block by block, and layers computed by several ranks together
blocks.py       modules that are divided as one
tensors.py      layers that several ranks compute together, by a plan
context.py      each rank computes a part of each sequence
experts.py      ranks have different experts, and exchange tokens
sequence.py     between these layers, each rank has a part of each sequence
evaluated.py    evaluation batches of ranks that gather parameters together
saved.py        checkpoints to which every rank writes its part
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.parallel.ddp import DDP
from flagperf.trainer.pytorch.parallel.sharded import Sharded
from flagperf.trainer.pytorch.parallel.strategy import Strategy
from flagperf.trainer.pytorch.ranks import World

__all__ = ["DDP", "Sharded", "Strategy", "make_strategy"]


def make_strategy(config: Mapping[str, Any], settings: Settings, world: World) -> Strategy:
    """The strategy of a configuration: DDP where it names none.

    Raises:
        ConfigError: the class is no strategy, or the mesh or another argument does not fit.
    """
    node = {**config["parallel"], "_target_": config["parallel"]["_target_"] or f"{__name__}.DDP"}
    try:
        strategy = component({"parallel": node}, "parallel", world, settings)
    except TypeError as error:  # an unknown or missing argument
        problem = "the strategy cannot be made"
        raise ConfigError(problem, where="config.yaml", key="parallel", advice=str(error)) from error
    if not isinstance(strategy, Strategy):
        allowed = f"a class derived from {Strategy.__module__}.Strategy"
        raise ConfigError("this is no strategy", where="config.yaml", key="parallel._target_", allowed=allowed)
    return strategy
