"""The trace of one optimizer step: by shapes alone, of a reduced case."""

from __future__ import annotations

import pytest
from torch import nn

from flagperf.config.compose import compose
from flagperf.contract.trace import from_json, to_json
from flagperf.plan.plan import make_plan
from flagperf.trainer.pytorch.trace import blocks
from flagperf.trainer.pytorch.trace.traced import trace

SMALL = (
    "model=llama3_8b",
    "size=tiny",
    "dry_run=true",
    "division=open",
    "network.config.num_hidden_layers=9",
    "global_batch_size=null",
    "gradient_accumulation_steps=1",
    "parallel.mesh.dp_shard=-1",
)
RECOMPUTED = "activation_checkpointing=true"


def config_of(*overrides: str):
    return make_plan(compose([*SMALL, *overrides], []), 1, placeholders=True).config


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), id="as the case is", marks=pytest.mark.slow),
        pytest.param((RECOMPUTED,), id="with recomputation", marks=pytest.mark.slow),
        pytest.param((RECOMPUTED, "checkpoint_keeps=products"), id="kept products", marks=pytest.mark.slow),
        pytest.param(("oversubscribe=true", "nproc=4"), id="divided over four ranks", marks=pytest.mark.slow),
        pytest.param(
            ("oversubscribe=true", "nproc=4", "parallel.mesh.tp=2"),
            id="with tensor parallelism",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("nproc=2", "parallel.mesh.pp=2", "gradient_accumulation_steps=5"),
            id="a pipeline of five and four blocks",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_few_blocks_stand_for_all(overrides, monkeypatch):
    few = trace(config_of(*overrides), "", {})
    monkeypatch.setattr(blocks, "ENOUGH", 99)
    whole = trace(config_of(*overrides), "", {})
    assert (few.case.layers, whole.case.layers) == (9, None)
    assert few.memory.total == pytest.approx(whole.memory.total, rel=0.01)
    assert few.operations == pytest.approx(whole.operations, rel=1e-6)
    assert set(few.collectives) == set(whole.collectives)
    assert from_json(to_json(few), "") == few


def test_equal_blocks_may_lie_between_others() -> None:
    """The first layers of deepseek_v3 have no experts."""
    network = nn.ModuleList([nn.Linear(2, 3), *(nn.Linear(3, 3) for _ in range(8)), nn.Linear(3, 1)])
    kept = [network[index] for index in (0, 1, 8, 9)]
    equal = blocks.equal_blocks(network)
    blocks.keep(network, [2])
    assert (equal, list(network)) == ([blocks.Equal(network, 1, 8)], kept)


def test_equal_blocks_of_two_kinds() -> None:
    """As in flux1, here in one list. The modules within a block do not count, nor does a third kind."""
    wide = [nn.Sequential(*(nn.Linear(3, 3) for _ in range(8))) for _ in range(9)]
    small = [nn.Linear(1, 1) for _ in range(8)]
    network = nn.ModuleList([*(nn.Linear(2, 2) for _ in range(10)), *wide, *small])
    kept = [*(network[index] for index in (0, 1, 9, 10, 18)), *small]
    equal = blocks.equal_blocks(network)
    blocks.keep(network, [2, 3])
    assert (equal, list(network)) == ([blocks.Equal(network, 10, 9), blocks.Equal(network, 0, 10)], kept)


@pytest.mark.slow
def test_the_more_is_recomputed_the_less_is_held():
    options = [(), (RECOMPUTED, "checkpoint_keeps=products"), (RECOMPUTED,)]
    job = "train_batch_size=8", "oversubscribe=true", "nproc=4", "gradient_accumulation_steps=2"
    held = [trace(config_of(*job, *option), "", {}).memory.total for option in options]
    assert held == sorted(held, reverse=True)
