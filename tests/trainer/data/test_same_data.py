"""Ranks on different data are refused before the first step, and told apart; nothing waits for a rank that has less."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import toy

from flagperf.errors import ConfigError
from flagperf.trainer.data.same_data import DataFacts, check_same, data_facts, node_name
from flagperf.trainer.pytorch.parts import build_parts


def refused(given: str) -> str:
    return (
        "the data differs between the ranks\n  where:   config.yaml\n  key:     data_dir\n"
        f"  given:   {given}\n  allowed: the same data on every host\n"
        "  do:      bring the same data to each host; `flagperf data check` tells what the data there lacks"
    )


def hosts(*counts: int, ranks: int = 1) -> list[DataFacts]:
    """Hosts h1, h2 … with so many ranks, and so many training samples, each."""
    return [
        DataFacts(host * ranks + rank, f"h{host + 1}", {"training samples": count})
        for host, count in enumerate(counts)
        for rank in range(ranks)
    ]


DIFFERENT = {
    "fewer samples on one host": (
        hosts(1200, 1150, ranks=2),
        "training samples: 1,200 on h1 (ranks 0, 1), 1,150 on h2 (ranks 2, 3)",
    ),
    "one of many hosts": (
        hosts(8, 8, 7, 8, ranks=8),
        "training samples: 8 on h1 (ranks 0 to 7), h2 (ranks 8 to 15), h4 (ranks 24 to 31), 7 on h3 (ranks 16 to 23)",
    ),
    "a rank among those of its host": (
        [DataFacts(0, "h1", {"classes": 3}), DataFacts(1, "h1", {"classes": 2})],
        "classes: 3 on h1 (rank 0), 2 on h1 (rank 1)",
    ),
    "several things, and files that only the first rank of a node looks at": (
        [
            DataFacts(0, "h1", {"classes": 3, "evaluation samples": 5, "names and sizes of files": "ab"}),
            DataFacts(1, "h1", {"classes": 3, "evaluation samples": 5}),
            DataFacts(2, "h2", {"classes": 2, "evaluation samples": 5, "names and sizes of files": "cd"}),
        ],
        "classes: 3 on h1 (ranks 0, 1), 2 on h2 (rank 2); "
        "names and sizes of files: ab on h1 (rank 0), cd on h2 (rank 2)",
    ),
    "all different": (
        hosts(*range(10)),
        "training samples: " + ", ".join(f"{n} on h{n + 1} (rank {n})" for n in range(8)) + " and 2 more",
    ),
}


@pytest.mark.parametrize(("everyone", "given"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_differs_is_told(everyone: list[DataFacts], given: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_same(everyone)
    assert str(error.value) == refused(given)


def test_the_same_data() -> None:
    check_same(hosts(7, 7, 7, ranks=4))
    check_same([DataFacts(0, "h1", {})])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_what_a_rank_sees(tmp_path: Path) -> None:
    (tmp_path / "points").write_text("1 2 3")
    config = {"data_dir": str(tmp_path), "data": {"require": {"points": 1}}}
    counts = {"train": 64, "eval": 19, "classes": 2}
    first, second = (data_facts(config, rank, rank, "h1", counts, ["cat", "dog"]) for rank in range(2))
    assert first.facts == {
        "training samples": 64,
        "evaluation samples": 19,
        "classes": 2,
        "names of the classes": digest("cat\ndog"),
        "names and sizes of files": digest("points\n5 "),
    }
    assert second.facts == {what: first.facts[what] for what in list(first.facts)[:-1]}


def test_names_of_nodes() -> None:
    config = {"cluster": {"nodes": [{"name": "h1"}, {"name": "h2"}]}}
    assert [node_name(config, rank) for rank in range(2)] == ["h1", "h2"]
    assert node_name({}, 0) == os.uname().nodename


def test_two_ranks_with_the_same_data(tmp_path: Path) -> None:
    run = toy.config(train_data=toy.node("of_rank", counts=[64, 64]))
    assert [events[-1].event for events in toy.fork_ranks(partial(toy.train, run), tmp_path)] == ["FINISHED"] * 2


RANKS: dict[str, tuple[dict[str, Any], str]] = {
    "samples": (
        {"train_data": toy.node("of_rank", counts=[64, 48])},
        "training samples: 64 on h1 (rank 0), 48 on h1 (rank 1)",
    ),
    "evaluation": (
        {"eval_data": toy.node("of_rank", counts=[16, 19])},
        "evaluation samples: 16 on h1 (rank 0), 19 on h1 (rank 1)",
    ),
}


@pytest.mark.parametrize(("settings", "given"), RANKS.values(), ids=RANKS.keys())
def test_two_ranks_with_different_data(settings: dict[str, Any], given: str, tmp_path: Path) -> None:
    """Real ranks over gloo, with a network that cannot be built: nothing was begun that depends on the data."""
    run = toy.config(**settings, cluster={"nodes": [{"name": "h1"}]}, network=None)
    assert toy.fork_ranks(partial(refusal, run), tmp_path) == [("said", refused(given))] * 2


def refusal(run: dict[str, Any], _: Path) -> tuple[str, str]:
    with pytest.raises(ConfigError) as error:
        build_parts(run)
    return "said", str(error.value)
