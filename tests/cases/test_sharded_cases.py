"""Cases that know nothing of it train divided over two ranks (FSDP2) as they do with data parallelism."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from toy import fork_ranks, losses, train, values

BLOCKS = {"bert": "BertLayer", "vit": "encoder.layers.*", "glm": "GPT2Block"}
MESH = {"dp_replicate": 1, "dp_shard": -1, "tp": 1}
SHARDED = {"_target_": "flagperf.trainer.pytorch.parallel.Sharded", "mesh": MESH}
STEPS = {"max_steps": 5, "log_freq": 1, "initial_evaluation": False, "nproc": 2, "num_workers": 0}


@pytest.mark.slow
@pytest.mark.filterwarnings("error:FSDP2-wrapped module:UserWarning")  # that its output is a view
@pytest.mark.parametrize(("case", "blocks"), BLOCKS.items(), ids=BLOCKS.keys())
def test_sharded_equals_whole(tiny: Callable[[str], dict[str, Any]], tmp_path: Path, case: str, blocks: str) -> None:
    config = tiny(case) | STEPS | {"eval_interval_steps": 5, "eval_start_samples": 0}
    whole, sharded = (
        fork_ranks(partial(train, {**config, "parallel": parallel}), tmp_path / name)
        for name, parallel in (("whole", config["parallel"]), ("sharded", {**SHARDED, "blocks": blocks}))
    )
    for before, after in zip(whole, sharded, strict=True):
        assert losses(after) == pytest.approx(losses(before), rel=1e-5)
        (wanted,), (given,) = (values(events, "EVALUATE") for events in (before, after))
        names = set(wanted) - {"time"}
        assert {name: given[name] for name in names} == pytest.approx({name: wanted[name] for name in names}, rel=1e-3)
