"""Sample data of glm: generated cloze questions about one fact, in the files and the sparse HDF5 layout of ReCoRD.

"a3 likes b7 ." is the passage, "a3 likes [MASK]" the question, b7 and others are the choices. Some names have two
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from scipy.sparse import csr_matrix

from cases.glm.data import SEQUENCES

PAD, CLS, MASK, START, STOP = range(5)  # PAD also ends the context, as in the published data
FIRST_WORD = 5
TWO_TOKENS = 4  # every fourth name has two tokens


def write_cloze(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    train_questions: int,
    eval_questions: int,
    choices: int,
    vocab_size: int,
    length: int,
) -> None:
    """Write one file a split.

    Args:
        train_path, eval_path: files below the folder.
        choices: choices of a question; in training, the first is right.
        vocab_size: all tokens are below it.
        length: tokens of a sequence, padded.
    """
    random = np.random.default_rng(0)
    for path, questions, shuffled in ((train_path, train_questions, False), (eval_path, eval_questions, True)):
        rows = Rows(length)
        for _ in range(questions):
            names = random.choice(vocab_size - FIRST_WORD - 1, size=choices + 1, replace=False) + FIRST_WORD
            subject, *objects = (_tokens(int(name)) for name in names)
            right = int(random.integers(choices)) if shuffled else 0
            verb = [vocab_size - 1]
            rows.add(subject + verb + objects[right] + [STOP] + subject + verb + [MASK], objects, right)
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        rows.write(target)


def _tokens(name: int) -> list[int]:
    return [name, FIRST_WORD] if name % TWO_TOKENS == 0 else [name]


@dataclass
class Rows:
    """The arrays of one split, as described in cases/glm/data.py."""

    length: int
    arrays: dict[str, list[list[int]]] = field(
        default_factory=lambda: {
            name: [] for name in ("text", "target", "logit_mask", "position", "choice_start_end", "answer_start_end")
        }
    )
    context: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    def add(self, question: Sequence[int], choices: Sequence[Sequence[int]], right: int) -> None:
        """One question: tokens with MASK at the blank, the texts that may fill it, and which of them does."""
        first = len(self.context)
        for choice in choices:
            self._add_choice([CLS, *question, PAD], choice)
        self.arrays["choice_start_end"].append([first, len(self.context)])
        self.arrays["answer_start_end"].append([len(self.answers), len(self.answers) + 1])
        self.answers.append(right)

    def _add_choice(self, context: list[int], choice: Sequence[int]) -> None:
        before, blank, size = [0] * len(context), context.index(MASK), len(choice)
        self._append("text", [*context, START, *choice[:-1]])
        self._append("target", [*before, *choice])
        self._append("logit_mask", [*before, *[1] * size])
        self._append("position", [*range(len(context)), *[blank] * size])
        self._append("position", [*before, *range(1, size + 1)])
        self.context.append(len(context))

    def _append(self, name: str, row: list[int]) -> None:
        if len(row) > self.length:
            raise ValueError(f"a sequence of {len(row)} tokens is longer than {self.length}")
        self.arrays[name].append(row)

    def write(self, path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, rows in {**self.arrays, "mask": [self.context], "answer_idx": [self.answers]}.items():
                width = self.length if name in SEQUENCES else len(rows[0])
                matrix = _sparse(rows, width)
                group = file.create_group(name)
                group.attrs["h5sparse_format"] = "csr"
                group.attrs["h5sparse_shape"] = matrix.shape
                group.create_dataset("data", data=matrix.data)
                group.create_dataset("indices", data=matrix.indices, dtype=np.int32)
                group.create_dataset("indptr", data=matrix.indptr, dtype=np.int64)


def _sparse(rows: Sequence[Sequence[int]], width: int) -> csr_matrix:
    """Rows, padded with zeros to the width; no zero is stored."""
    values = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
    columns = np.concatenate([np.arange(len(row)) for row in rows])
    starts = np.cumsum([0, *(len(row) for row in rows)])
    matrix = csr_matrix((values, columns, starts), shape=(len(rows), width))
    matrix.eliminate_zeros()
    return matrix
