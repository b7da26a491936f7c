"""Checks that all ranks see the same data, before the first step.

Ranks on different data may have different numbers of steps: a rank would wait for the others until its timeout. Or the
result would belong to no data set at all.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from flagperf.contract.data_files import QUICK, data_fingerprint
from flagperf.errors import ConfigError
from flagperf.trainer.ranks import Ranks

WORDS = {"train": "training samples", "eval": "evaluation samples", "classes": "classes"}  # of extent.py's counts
SHOWN = 8  # hosts, or different answers, that a message names at most


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data as one rank sees it."""

    rank: int
    host: str
    facts: Mapping[str, int | str]  # name of a fact → number or digest


def check_same_data(config: Mapping[str, Any], ranks: Ranks, counts: Mapping[str, int], classes: Any = None) -> None:
    """Refuse data that differs between the ranks. Call it before anything depends on the number of samples.

    Args:
        counts, classes: as `data_facts` takes them.

    Raises:
        ConfigError: the data differs.
    """
    host = node_name(config, ranks.rank // ranks.local_size)
    check_same(ranks.gather(data_facts(config, ranks.rank, ranks.local_rank, host, counts, classes)))


def data_facts(
    config: Mapping[str, Any], rank: int, local_rank: int, host: str, counts: Mapping[str, int], classes: Any
) -> DataFacts:
    """The facts of this rank; only the first rank of a node looks at the files.

    Args:
        counts: of the data sets, by the names of contract/extent.py.
        classes: names of the classes of the training data; None where it names none.
    """
    facts: dict[str, int | str] = {WORDS[name]: count for name, count in counts.items()}
    if classes is not None:
        names = "\n".join(map(str, classes)).encode(errors="surrogateescape")
        facts["names of the classes"] = hashlib.sha256(names).hexdigest()[:16]
    if local_rank == 0 and (files := data_fingerprint(config, QUICK)):
        facts["names and sizes of files"] = files.digest
    return DataFacts(rank, host, facts)


def node_name(config: Mapping[str, Any], node_rank: int) -> str:
    """The name that the cluster's file gives a node; its host name where there is none."""
    nodes = (config.get("cluster") or {}).get("nodes") or ()
    return str(nodes[node_rank]["name"]) if node_rank < len(nodes) else socket.gethostname()


def check_same(ranks: Sequence[DataFacts]) -> None:
    """Refuse data that differs between ranks.

    Raises:
        ConfigError: the data differs; the message names facts and hosts.
    """
    names = dict.fromkeys(name for rank in ranks for name in rank.facts)
    differences = [text for name in names for text in _differences(name, ranks)]
    if differences:
        raise ConfigError(
            "the data differs between the ranks",
            where="config.yaml",
            key="data_dir",
            given="; ".join(differences),
            allowed="the same data on every host",
            advice="bring the same data to each host; `flagperf data check` tells what the data there lacks",
        )


def _differences(name: str, ranks: Sequence[DataFacts]) -> Iterator[str]:
    """How the ranks differ in a fact; nothing where they agree."""
    by_value: dict[int | str, list[DataFacts]] = {}
    for rank in ranks:
        if name in rank.facts:
            by_value.setdefault(rank.facts[name], []).append(rank)
    if len(by_value) > 1:
        yield f"{name}: " + _shortened([f"{_text(value)} on {_hosts(same)}" for value, same in by_value.items()])


def _text(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _hosts(ranks: Sequence[DataFacts]) -> str:
    """ "h1 (ranks 0, 1), h2 (rank 2)" """
    by_host = ((host, [rank.rank for rank in group]) for host, group in groupby(ranks, lambda rank: rank.host))
    return _shortened([f"{host} ({_ranks(numbers)})" for host, numbers in by_host])


def _ranks(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"ranks {numbers[0]} to {numbers[-1]}"
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _shortened(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more
