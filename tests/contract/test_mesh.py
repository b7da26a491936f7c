"""The mesh: which ranks share what."""

from __future__ import annotations

import pytest

from flagperf.contract.mesh import Mesh
from flagperf.contract.pipeline import bubble
from flagperf.errors import ConfigError


def sizes(dp_replicate: int, dp_shard: int, tp: int) -> dict[str, int]:
    return {"dp_replicate": dp_replicate, "dp_shard": dp_shard, "tp": tp}


@pytest.mark.parametrize(
    ("given", "world", "mesh"),
    [
        pytest.param(sizes(-1, 1, 1), 1, Mesh(1, 1, 1), id="one rank"),
        pytest.param(sizes(-1, 1, 1), 8, Mesh(8, 1, 1), id="data parallelism"),
        pytest.param(sizes(1, -1, 1), 8, Mesh(1, 8, 1), id="shards"),
        pytest.param(sizes(2, -1, 2), 16, Mesh(2, 4, 2), id="all three"),
        pytest.param(sizes(2, 4, 2), 16, Mesh(2, 4, 2), id="all three sizes given"),
        pytest.param(sizes(2, 4, -1), 8, Mesh(2, 4, 1), id="nothing is left"),
    ],
)
def test_sizes(given: dict[str, int], world: int, mesh: Mesh) -> None:
    assert Mesh.of(given, world) == mesh


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(sizes(1, -1, 3), "do not multiply", id="no whole number is left"),
        pytest.param(sizes(2, 2, 1), "do not multiply", id="fewer than the ranks"),
        pytest.param(sizes(16, -1, 1), "do not multiply", id="more than the ranks"),
        pytest.param(sizes(-1, -1, 1), "only one side", id="two open sides"),
        pytest.param(sizes(0, -1, 1), r"value out of range[\s\S]*parallel.mesh.dp_replicate", id="zero"),
    ],
)
def test_wrong_sizes(given: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Mesh.of(given, 8)


def test_who_shares_what() -> None:
    mesh = Mesh(2, 2, 2)
    assert mesh.groups("tp") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh.groups("dp_shard") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert mesh.groups("dp_replicate") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [mesh.data_rank(rank) for rank in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [mesh.part(rank) for rank in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]  # copies are those along dp_replicate
    assert [rank for rank in range(8) if mesh.counts_samples(rank)] == [0, 2, 4, 6]


def test_who_shares_what_in_a_pipeline() -> None:
    mesh = Mesh(dp_replicate=2, dp_shard=1, tp=2, pp=2)
    assert mesh.groups("pp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert mesh.groups("dp_replicate") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert [mesh.data_rank(rank) for rank in range(8)] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert [mesh.part(rank) for rank in range(8)] == [0, 1, 0, 1, 2, 3, 2, 3]
    assert [rank for rank in range(8) if mesh.counts_samples(rank)] == [0, 2]


def test_who_shares_what_with_sequences_and_experts() -> None:
    """Ranks along cp have the same data, and ranks along ep have other data. All hold parts of the parameters."""
    mesh = Mesh(dp_replicate=2, cp=2, ep=2)
    assert mesh.groups("cp") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert mesh.groups("ep") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [mesh.data_rank(rank) for rank in range(8)] == [0, 1, 0, 1, 2, 3, 2, 3]
    assert [mesh.part(rank) for rank in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [rank for rank in range(8) if mesh.counts_samples(rank)] == [0, 1, 4, 5]


@pytest.mark.parametrize(
    ("ranks", "stages", "micro_batches", "share"), [(4, 1, 8, 3 / 11), (4, 2, 8, 3 / 19), (2, 1, 1, 0.5), (1, 1, 4, 0)]
)
def test_the_bubble_of_a_pipeline(ranks: int, stages: int, micro_batches: int, share: float) -> None:
    assert bubble(ranks, stages, micro_batches) == share


@pytest.mark.parametrize(("batch", "accumulation"), [(4, 4), (8, 2)])
def test_global_batch(batch: int, accumulation: int) -> None:
    config = {"global_batch_size": 64, "train_batch_size": batch, "gradient_accumulation_steps": accumulation}
    Mesh(2, 2, 2).check_global_batch(config, str)
    with pytest.raises(ConfigError, match=rf"given:   {batch} x {accumulation} x 8 = 128"):
        Mesh(2, 4, 1).check_global_batch(config, str)
    Mesh(2, 4, 1).check_global_batch({**config, "global_batch_size": None}, str)
