"""The moving average of weights that are divided over ranks is that of one process, also where a training goes on."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
import toy
from test_parallel import DDP, EQUAL, EVALUATED, STEPS, Told, configuration, sharded, train

MESHES = {"replicate x shard": sharded(dp_replicate=2, dp_shard=2), "tp x shard": sharded(dp_shard=2, tp=2)}
EMA = {"ema": {"decay": 0.7, "every": 3}, "initial_evaluation": True}
HALF = STEPS // 2


def train_both(folder: Path) -> dict[str, Told]:
    """The whole training on one mesh; and half of it there, and the other half on another."""
    os.environ["FLAGPERF_CHECKPOINT_DIR"] = saved = str(folder.parent / "checkpoint")
    first, second = MESHES.values()
    whole = train(configuration(first, 4, **EMA), folder)
    train(configuration(first, 4, max_steps=HALF, checkpoint_freq=HALF, **EMA), folder)
    return {"whole": whole, "resumed": train(configuration(second, 4, resume=saved, **EMA), folder)}


@pytest.mark.slow
def test_the_average_equals_one_process(tmp_path: Path) -> None:
    (alone,) = toy.fork_ranks(partial(train, configuration(DDP, 1, **EMA)), tmp_path / "alone", ranks=1)
    (plain,) = toy.fork_ranks(partial(train, configuration(DDP, 1)), tmp_path / "plain", ranks=1)
    assert alone.losses == plain.losses
    assert alone.evaluated[::2] != pytest.approx(plain.evaluated[::2], rel=1e-3)
    for told in toy.fork_ranks(train_both, tmp_path / "divided", ranks=4):
        assert told["whole"].losses == pytest.approx(alone.losses, rel=EQUAL)
        assert told["whole"].evaluated == pytest.approx(alone.evaluated, rel=EQUAL)
        assert told["resumed"].evaluated == pytest.approx([alone.evaluated[2], EVALUATED], rel=EQUAL)
