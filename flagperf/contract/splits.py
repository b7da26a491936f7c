"""Training and evaluation data must be disjoint: no path of one may lead to files of the other, also not by links.

The paths of a case come in pairs of keys: train_path and eval_path, train_annotations and eval_annotations.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.contract.data_files import spread
from flagperf.errors import ConfigError

LISTED = 4096  # entries of a training folder that a quick look lists …
BRANCHES = 32  # … and how many of them it goes into


class Split(NamedTuple):
    """A pair of keys, and where they point."""

    keys: str
    train: Path
    evaluation: Path

    def refused(self, given: str) -> ConfigError:
        """The error where both hold the same."""
        return ConfigError(
            "training and evaluation use the same data",
            where="config.yaml",
            key=self.keys,
            given=given,
            allowed="paths to different data",
            advice="a metric on the training data has no meaning: give each split its own data",
        )


def splits(config: Mapping[str, Any], folder: str | Path) -> Iterator[Split]:
    """Pairs of keys train_<name> and eval_<name> whose texts are paths below the folder, data_dir on this machine."""
    for key, value in config.items():
        other = f"eval_{key[len('train_') :]}"
        if key.startswith("train_") and isinstance(value, str) and isinstance(config.get(other), str):
            train, evaluation = Path(folder, value), Path(folder, config[other])
            if train.exists() and evaluation.exists():
                yield Split(f"{key}, {other}", train, evaluation)


def check_disjoint(config: Mapping[str, Any], folder: str | Path, *, quick: bool = True) -> None:
    """Refuse paths of training and evaluation that are the same, lie one in the other, or lead to the same files.

    Args:
        folder: data_dir on this machine.
        quick: look at some hundred training files only; a million of them take seconds.

    Raises:
        ConfigError: they share files; the message has an example.
    """
    for split in splits(config, folder):
        if shared := _shared(split, quick):
            raise split.refused(shared)


def _shared(split: Split, quick: bool) -> str:
    """How files are shared, in words; "" where none are."""
    train, evaluation = split.train, split.evaluation
    ends = train.resolve(), evaluation.resolve()
    if train.samefile(evaluation):
        return f"{train} and {evaluation} are the same"
    for inner, outer in (ends, ends[::-1]):
        if outer in inner.parents:
            return f"{inner} lies in {outer}"
    if train.is_file() or evaluation.is_file():
        return ""
    evaluated = {_inode(entry): entry.path for entry in files_below(evaluation)}
    for entry in files_below(train, quick):
        path = evaluated.get(_inode(entry))
        if path and os.path.samefile(path, entry.path):  # noqa: PTH121  # two file systems may use one number
            return f"{entry.path} and {path} are the same file"
    return ""


def files_below(folder: Path | str, quick: bool = False) -> Iterator[os.DirEntry[str]]:
    """The files below a folder, links to folders followed. `quick`: some from some of the sub-folders."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted(islice(entries, LISTED if quick else None), key=lambda entry: entry.name)
    except PermissionError:  # the reader of the data reports it
        return
    for entry in spread(listed, BRANCHES) if quick else listed:
        if entry.is_dir():
            yield from files_below(entry.path, quick)
        elif entry.is_file():  # no link that leads nowhere
            yield entry


def _inode(entry: os.DirEntry[str]) -> int:
    """The number of the file that an entry leads to. Its folder has it, except for symbolic links."""
    return entry.stat().st_ino if entry.is_symlink() else entry.inode()
