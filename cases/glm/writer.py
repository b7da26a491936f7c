"""Writes the files that cases/glm/data.py describes, question by question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Sequence, Tuple

import h5py
import numpy as np
from numpy.typing import NDArray

from cases.glm.data import SEQUENCES

ROWS = 1024  # rows of a matrix that are kept until they are written together
CHUNK = 8192  # numbers that HDF5 reads at once

Choice = Tuple[Sequence[int], Sequence[int]]  # question with a blank, and its answer


@dataclass(frozen=True)
class Special:
    """Tokens with a meaning of their own."""

    begin: int  # begins a sequence
    blank: int
    start: int  # begins the answer
    end: int = 0  # ends the context


class QuestionWriter:
    """The file of one split. It is complete when the `with` block ends."""

    def __init__(self, path: Path, length: int, special: Special) -> None:
        self.special, self.length = special, length
        self.context: list[int] = []
        self.answers: list[int] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = h5py.File(path, "w")
        self.sequences = {name: SparseWriter(self.file, name, length) for name in SEQUENCES}
        self.pairs = {name: SparseWriter(self.file, name, 2) for name in ("choice_start_end", "answer_start_end")}

    def add(self, choices: Iterable[Choice], right: Sequence[int]) -> None:
        """One question: each choice with the question before it, and which choices are right."""
        first = len(self.context)
        for question, answer in choices:
            self._add_choice([self.special.begin, *question, self.special.end], answer)
        self.pairs["choice_start_end"].append([first, len(self.context)])
        self.pairs["answer_start_end"].append([len(self.answers), len(self.answers) + len(right)])
        self.answers.extend(right)

    def _add_choice(self, context: list[int], answer: Sequence[int]) -> None:
        size = len(answer)
        if len(context) + size > self.length:
            raise ValueError(f"a sequence of {len(context) + size} tokens is longer than {self.length}")
        blank = len(context) - 1 - context[::-1].index(self.special.blank)
        before = [0] * len(context)
        self.sequences["text"].append([*context, self.special.start, *answer[:-1]])
        self.sequences["target"].append([*before, *answer])
        self.sequences["logit_mask"].append([*before, *[1] * size])
        self.sequences["position"].append([*range(len(context)), *[blank] * size])
        self.sequences["position"].append([*before, *range(1, size + 1)])
        self.context.append(len(context))

    def __enter__(self) -> QuestionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.file:
            if error is not None:
                return
            for matrix in (*self.sequences.values(), *self.pairs.values()):
                matrix.close()
            for name, numbers in (("mask", self.context), ("answer_idx", self.answers)):
                matrix = SparseWriter(self.file, name, len(numbers))
                matrix.append(numbers)
                matrix.close()


class SparseWriter:
    """One matrix in h5sparse's layout, written row by row: the counterpart of cases.glm.data.SparseRows."""

    def __init__(self, file: h5py.File, name: str, width: int) -> None:
        self.group, self.width = file.create_group(name), width
        self.data, self.indices = (
            self.group.create_dataset(part, (0,), dtype, maxshape=(None,), chunks=(CHUNK,))
            for part, dtype in (("data", np.int64), ("indices", np.int32))
        )
        self.stored: list[int] = []  # numbers of each row
        self.rows: list[NDArray[np.int64]] = []  # not written yet

    def append(self, row: Sequence[int]) -> None:
        """Add a row. Its padding with zeros is not stored."""
        self.rows.append(np.array(row, dtype=np.int64))
        if len(self.rows) == ROWS:
            self._write()

    def _write(self) -> None:
        places = [row.nonzero()[0] for row in self.rows]
        self.stored.extend(map(len, places))
        parts = [row[position] for row, position in zip(self.rows, places)]
        for dataset, new in ((self.data, np.concatenate(parts)), (self.indices, np.concatenate(places))):
            written = len(dataset)
            dataset.resize((written + len(new),))
            dataset[written:] = new
        self.rows = []

    def close(self) -> None:
        """Write the remaining rows, and the index."""
        if self.rows:
            self._write()
        self.group.create_dataset("indptr", data=np.cumsum([0, *self.stored], dtype=np.int64))
        self.group.attrs["h5sparse_format"] = "csr"
        self.group.attrs["h5sparse_shape"] = (len(self.stored), self.width)
