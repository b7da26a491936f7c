"""All ranks must see the same data. Each tells what it sees before anything waits for a step that another has not.

Ranks on different data have different numbers of steps: one of them would wait for the others until its time is up, or
the result would be that of no data set at all.
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
class Seen:
    """What one rank sees of the data."""

    rank: int
    host: str
    facts: Mapping[str, int | str]  # what is compared, in words → number, or digest


def check_same_data(config: Mapping[str, Any], ranks: Ranks, counts: Mapping[str, int], classes: Any = None) -> None:
    """Refuse data that differs between the ranks: to be called before anything depends on how much there is.

    Args:
        counts, classes: as `seen` takes them.

    Raises:
        ConfigError: it does.
    """
    host = node_name(config, ranks.rank // ranks.local_size)
    check_same(ranks.gather(seen(config, ranks.rank, ranks.local_rank, host, counts, classes)))


def seen(
    config: Mapping[str, Any], rank: int, local_rank: int, host: str, counts: Mapping[str, int], classes: Any
) -> Seen:
    """What this rank sees; the files only where it is the first of its node.

    Args:
        counts: what the data sets hold, by the names of contract/extent.py.
        classes: names of the classes of the training data; None where it names none.
    """
    facts: dict[str, int | str] = {WORDS[name]: count for name, count in counts.items()}
    if classes is not None:
        names = "\n".join(map(str, classes)).encode(errors="surrogateescape")
        facts["names of the classes"] = hashlib.sha256(names).hexdigest()[:16]
    if local_rank == 0 and (files := data_fingerprint(config, QUICK)):
        facts["names and sizes of files"] = files.digest
    return Seen(rank, host, facts)


def node_name(config: Mapping[str, Any], node_rank: int) -> str:
    """The name that the cluster's file gives a node; its host name where there is none."""
    nodes = (config.get("cluster") or {}).get("nodes") or ()
    return str(nodes[node_rank]["name"]) if node_rank < len(nodes) else socket.gethostname()


def check_same(everyone: Sequence[Seen]) -> None:
    """Refuse data that differs between ranks.

    Raises:
        ConfigError: it does; says what differs, and on which hosts.
    """
    facts = dict.fromkeys(what for one in everyone for what in one.facts)
    told = [text for what in facts for text in _told(what, everyone)]
    if told:
        raise ConfigError(
            "the data differs between the ranks",
            where="config.yaml",
            key="data_dir",
            given="; ".join(told),
            allowed="the same data on every host",
            advice="bring the same data to each host; `flagperf data check` tells what the data there lacks",
        )


def _told(what: str, everyone: Sequence[Seen]) -> Iterator[str]:
    """How the ranks differ in one fact, in words; nothing where they do not."""
    answers: dict[int | str, list[Seen]] = {}
    for one in everyone:
        if what in one.facts:
            answers.setdefault(one.facts[what], []).append(one)
    if len(answers) > 1:
        yield f"{what}: " + _some([f"{_text(answer)} on {_hosts(ranks)}" for answer, ranks in answers.items()])


def _text(answer: int | str) -> str:
    return f"{answer:,}" if isinstance(answer, int) else answer


def _hosts(ranks: Sequence[Seen]) -> str:
    """ "h1 (ranks 0, 1), h2 (rank 2)" """
    by_host = ((host, [one.rank for one in some]) for host, some in groupby(ranks, lambda one: one.host))
    return _some([f"{host} ({_ranks(numbers)})" for host, numbers in by_host])


def _ranks(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"ranks {numbers[0]} to {numbers[-1]}"
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _some(texts: Sequence[str]) -> str:
    rest = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + rest
