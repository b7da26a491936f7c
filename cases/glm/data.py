"""ReCoRD as FlagPerf publishes it: tokens in one HDF5 file a split, each array a sparse matrix of h5sparse's layout.

One row is one choice of one question; the choices of a question follow each other.

    text, target, logit_mask    [choices, length]      tokens, tokens to predict, 1 where a prediction counts
    position                    [2 * choices, length]  position; position within the blank
    mask                        choices numbers        how many tokens lead up to the text of the blank
    choice_start_end            [questions, 2]         rows of a question's choices
    answer_idx                  numbers                right choices, counted from the question's first
    answer_start_end            [questions, 2]         places of a question's answers in answer_idx

In a training split the first choice is the right one, and there are no answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Dict

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.utils.data import Dataset

from cases.hdf5 import open_hdf5
from flagperf.errors import ConfigError

ADVICE = "unpack the archive of the data set again, or fetch it again"
SEQUENCES = ("text", "target", "logit_mask", "position")  # read row by row; the rest is small and kept in memory
TRAIN_KEYS = (*SEQUENCES, "mask", "choice_start_end")
EVAL_KEYS = (*TRAIN_KEYS, "answer_idx", "answer_start_end")


class RecordQuestions(Dataset[Dict[str, Tensor]]):
    """The questions of one split; rows are read from the file on access."""

    def __init__(self, path: str, keys: Sequence[str]) -> None:
        self.path = path
        with open_hdf5(path, keys, ADVICE) as file:
            small = {key: SparseRows(file[key]).all() for key in keys if key not in SEQUENCES}
        self.context = small["mask"].ravel()
        self.choices = small["choice_start_end"]
        if not len(self.choices):
            raise ConfigError("no questions in this split of the data set", where=path, key="data_dir")
        self.answers: list[NDArray[np.int64]] | None = None
        if "answer_idx" in small:
            indices = small["answer_idx"].ravel()
            self.answers = [indices[start:end] for start, end in small["answer_start_end"]]

    @cached_property
    def rows(self) -> dict[str, SparseRows]:
        """The large arrays. Opened by each process of the loader for itself: HDF5 does not survive a fork."""
        file = open_hdf5(self.path, SEQUENCES, ADVICE)
        return {key: SparseRows(file[key]) for key in SEQUENCES}

    def __len__(self) -> int:
        return len(self.choices)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        start, end = self.choices[index]
        length = self.rows["text"].shape[1]
        answers = self.answers[index] if self.answers is not None else [0]
        return {
            "text": torch.from_numpy(self.rows["text"][start:end]),
            "position": torch.from_numpy(self.rows["position"][2 * start : 2 * end]).view(-1, 2, length),
            "context": torch.from_numpy(self.context[start:end]),
            "target": torch.from_numpy(self.rows["target"][start:end]),
            "target_mask": torch.from_numpy(self.rows["logit_mask"][start:end]),
            "answers": torch.zeros(end - start, dtype=torch.bool).index_fill_(0, torch.tensor(answers), True),
        }

    @staticmethod
    def collate_fn(questions: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Stack questions. Missing choices of a question repeat its first one; `is_choice` marks the true ones."""
        most = max(len(question["text"]) for question in questions)
        counts = torch.tensor([len(question["text"]) for question in questions])

        def padded(values: Tensor) -> Tensor:
            return torch.cat([values, values[:1].expand(most - len(values), *values.shape[1:])])

        batch = {key: torch.stack([padded(question[key]) for question in questions]) for key in questions[0]}
        return {**batch, "is_choice": torch.arange(most) < counts[:, None]}


class SparseRows:
    """One matrix in h5sparse's layout: a group with the data, indices and indptr of its CSR form, and its shape."""

    def __init__(self, group: h5py.Group) -> None:
        self._data, self._indices, self._indptr = group["data"], group["indices"], group["indptr"][()]
        self.shape: tuple[int, int] = tuple(group.attrs["h5sparse_shape"])

    def __getitem__(self, rows: slice) -> NDArray[np.int64]:
        indptr = self._indptr[rows.start : rows.stop + 1]
        stored = slice(indptr[0], indptr[-1])
        matrix = csr_matrix(
            (self._data[stored], self._indices[stored], indptr - indptr[0]), shape=(len(indptr) - 1, self.shape[1])
        )
        dense: NDArray[np.int64] = matrix.toarray().astype(np.int64, copy=False)
        return dense

    def all(self) -> NDArray[np.int64]:
        """All rows."""
        return self[0 : self.shape[0]]


def train_questions(path: str) -> RecordQuestions:
    """The training split; answers that the file may hold are not needed."""
    return RecordQuestions(path, TRAIN_KEYS)


def eval_questions(path: str) -> RecordQuestions:
    """The evaluation split, with all right answers of each question."""
    return RecordQuestions(path, EVAL_KEYS)
