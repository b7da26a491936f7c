"""Changes with which a step fits, from real traces of a tiny network on a product with little memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.config.compose import compose
from flagperf.run.ways_to_fit import ways_to_fit

TINY = (
    "model=llama3_8b",
    "size=tiny",
    "dry_run=true",
    "division=open",
    "vendor=nvidia",
    "hardware=H100",
    "nproc=2",
    "global_batch_size=null",
    "gradient_accumulation_steps=1",
    "train_batch_size=8",
    "parallel.mesh.dp_shard=-1",
    "hardware.memory_overhead={factor: 1000, constant_gib: 0}",  # the tensors need MiB, the product has whole GiB
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory_gib", "ways"),
    [
        pytest.param(10, ["train_batch_size=2", "train_batch_size=1"], id="one change"),
        pytest.param(4, ["activation_checkpointing=true loss_chunk=2048 train_batch_size=1"], id="several together"),
        pytest.param(
            2,
            [
                "activation_checkpointing=true loss_chunk=2048 train_batch_size=1 "
                "parallel.mesh.tp=2 parallel.mesh.dp_shard=-1 nnodes=3"
            ],
            id="the fewest nodes",
        ),
    ],
)
def test_ways(memory_gib: int, ways: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    job = compose([*TINY, f"hardware.memory_gib={memory_gib}"])
    assert [way.words for way in ways_to_fit(job)] == ways
