"""The attempts of a round that were lost, and after which the round was started again (`restarts=N`).

round<N>/attempt<M>/ has the files of such an attempt: its logs, its checkpoints, and attempt.json.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

from flagperf.contract.build import build
from flagperf.contract.outcome import Failure, Moment
from flagperf.errors import ConfigError
from flagperf.results.json_record import read_json, write_json

FILE = "attempt.json"
_FOLDER = re.compile(r"attempt(\d+)")


@dataclass(frozen=True)
class Attempt:
    """A lost attempt, as the launcher records it."""

    failure: Failure
    hosts: tuple[str, ...]  # by node rank
    started: Moment
    seconds: float
    next_step: int  # the next attempt goes on after this step; 0: from the beginning


def folders(round_folder: Path) -> list[Path]:
    """The folders of the lost attempts of a round, the oldest first."""
    numbers = {int(match[1]): path for path in round_folder.glob("attempt*") if (match := _FOLDER.fullmatch(path.name))}
    return [numbers[number] for number in sorted(numbers)]


def write(attempt: Attempt, folder: Path) -> None:
    """Write attempt.json into the folder of an attempt."""
    write_json(dataclasses.asdict(attempt), folder / FILE)


def read(folder: Path) -> Attempt | None:
    """The record of an attempt; None where the launcher was ended before it wrote one."""
    try:
        return build(Attempt, read_json(folder / FILE), FILE, lambda _: str(folder / FILE))
    except ConfigError:
        return None
