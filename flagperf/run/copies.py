"""Finds copies of evaluation data in the training data, for `flagperf data check`. Takes some seconds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.data_files import spread
from flagperf.contract.splits import files_below, splits

HEAD = 65536  # bytes at the beginning of a file that are compared, beside its size
SAMPLES = 1000  # most evaluation files, or lines of a text file, that are compared with the training data
MOST = 0.1  # allowed share of copies: large data sets hold some samples twice


def check_copies(config: Mapping[str, Any], folder: str | Path) -> None:
    """Refuse training data with copies of the evaluation data under other names.

    Compares the lines of two text files, the files of two folders, and any other file as a whole.

    Args:
        folder: data_dir on this machine.

    Raises:
        ConfigError: more than a tenth of the evaluation data is in the training data; with an example.
    """
    for split in splits(config, folder):
        trained, evaluated = _lines(split.train), _lines(split.evaluation)
        if trained and evaluated:
            training_lines = set(trained)
            samples = spread(evaluated, SAMPLES)
            copies = [line for line in samples if line in training_lines]
        else:
            samples = spread(_paths(split.evaluation), SAMPLES)
            sizes = {os.stat(path).st_size for path in samples}  # noqa: PTH116
            alike = (path for path in _paths(split.train) if os.stat(path).st_size in sizes)  # noqa: PTH116
            contents = {_content(path): path for path in alike}
            copies = [f"{path}, a copy of {contents[_content(path)]}" for path in samples if _content(path) in contents]
        if len(copies) > MOST * len(samples):
            unit = "lines" if trained and evaluated else "files"
            raise split.refused(
                f"{len(copies)} of {len(samples)} evaluation {unit} are in the training data, such as {copies[0]}"
            )


def _lines(path: Path) -> list[str]:
    """The lines of a text file; none for any other file."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        head = file.read(HEAD)
    is_text = b"\n" in head and b"\0" not in head
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if is_text else []


def _paths(path: Path) -> list[str]:
    """The files below a folder, by name; for a file its own path."""
    return [str(path)] if path.is_file() else [entry.path for entry in files_below(path)]


def _content(path: str) -> tuple[int, bytes]:
    """Size and hash of the beginning of a file: equal for copies."""
    with open(path, "rb") as file:  # noqa: PTH123
        return os.fstat(file.fileno()).st_size, hashlib.sha256(file.read(HEAD)).digest()
