"""ReCoRD's HDF5 files: what is read is what lies on disk, and what cannot be used is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from cases.glm.data import RecordQuestions, SparseRows, eval_questions, train_questions
from cases.glm.writer import ROWS, QuestionWriter, SparseWriter, Special
from flagperf.contract.components import component
from flagperf.errors import ConfigError

PAD, CLS, MASK, START = range(4)
QUESTION = [7, 8, 9, 7, 8, MASK]  # "a likes b a likes [MASK]"


@pytest.fixture
def written(tmp_path: Path) -> str:
    """Two questions: three choices of which the second is right, and two of which the first is."""
    path = tmp_path / "split.hdf5"
    with QuestionWriter(path, 12, Special(begin=CLS, blank=MASK, start=START)) as writer:
        writer.add([(QUESTION, answer) for answer in ([10], [9], [11, 12])], right=[1])
        writer.add([([5, MASK, 6], answer) for answer in ([13, 14, 15], [16])], right=[0])
    return str(path)


def test_rows_are_read_back(written: str) -> None:
    first, second = eval_questions(written)
    assert first["text"].tolist() == [
        [CLS, *QUESTION, PAD, START, 0, 0, 0],
        [CLS, *QUESTION, PAD, START, 0, 0, 0],
        [CLS, *QUESTION, PAD, START, 11, 0, 0],
    ]
    assert first["target"][2].tolist() == [0] * 8 + [11, 12, 0, 0]
    assert first["target_mask"][2].tolist() == [0] * 8 + [1, 1, 0, 0]
    assert first["position"][2].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7, 6, 6, 0, 0], [0] * 8 + [1, 2, 0, 0]]
    assert first["context"].tolist() == [8, 8, 8]
    assert first["answers"].tolist() == [False, True, False]
    assert second["text"].tolist() == [
        [CLS, 5, MASK, 6, PAD, START, 13, 14, 0, 0, 0, 0],
        [CLS, 5, MASK, 6, PAD, START, 0, 0, 0, 0, 0, 0],
    ]
    assert second["answers"].tolist() == [True, False]


def test_in_training_the_first_choice_is_right(written: str) -> None:
    assert [question["answers"].tolist() for question in train_questions(written)] == [
        [True, False, False],
        [True, False],
    ]


def test_questions_with_fewer_choices_are_filled_up(written: str) -> None:
    first, second = eval_questions(written)
    batch = RecordQuestions.collate_fn([first, second])
    assert batch["is_choice"].tolist() == [[True, True, True], [True, True, False]]
    assert torch.equal(batch["text"][0], first["text"])
    assert torch.equal(batch["text"][1], torch.cat([second["text"], second["text"][:1]]))
    assert {name: tuple(values.shape) for name, values in batch.items()} == {
        "text": (2, 3, 12),
        "position": (2, 3, 2, 12),
        "context": (2, 3),
        "target": (2, 3, 12),
        "target_mask": (2, 3, 12),
        "answers": (2, 3),
        "is_choice": (2, 3),
    }


def test_the_layout_is_that_of_h5sparse(written: str) -> None:
    """As the h5sparse package writes it: the matrix [[0, 7, 8]] with three rows more, spelled out."""
    with h5py.File(written) as file:
        group = file["choice_start_end"]
        assert dict(group.attrs)["h5sparse_format"] == "csr"
        assert group.attrs["h5sparse_shape"].tolist() == [2, 2]
        assert {name: (group[name].dtype, group[name][()].tolist()) for name in group} == {
            "data": (np.dtype("int64"), [3, 3, 5]),
            "indices": (np.dtype("int32"), [1, 0, 1]),
            "indptr": (np.dtype("int64"), [0, 1, 3]),
        }


def test_matrices_of_many_rows(tmp_path: Path) -> None:
    """Rows of different lengths, some of them empty or zero, written in several parts."""
    random = np.random.default_rng(0)
    rows = [random.integers(0, 3, size=random.integers(0, 9)) for _ in range(2 * ROWS + 5)]
    with h5py.File(tmp_path / "matrix.hdf5", "w") as file:
        matrix = SparseWriter(file, "m", 9)
        for row in rows:
            matrix.append(row)
        matrix.close()
        read = SparseRows(file["m"])
        assert read.all().tolist() == [[*row.tolist(), *[0] * (9 - len(row))] for row in rows]
        assert len(file["m"]["data"]) == sum(map(np.count_nonzero, rows))


def test_the_last_blank_is_filled(tmp_path: Path) -> None:
    """A passage may hold the token too."""
    with QuestionWriter(tmp_path / "split.hdf5", 12, Special(begin=CLS, blank=MASK, start=START)) as writer:
        writer.add([([MASK, 7, MASK, 8], [9])], right=[0])
    (question,) = train_questions(str(tmp_path / "split.hdf5"))
    assert question["position"][0, 0].tolist() == [0, 1, 2, 3, 4, 5, 3, 0, 0, 0, 0, 0]


def test_sequences_that_are_too_long_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="a sequence of 11 tokens is longer than 10"),
        QuestionWriter(tmp_path / "split.hdf5", 10, Special(begin=CLS, blank=MASK, start=START)) as writer,
    ):
        writer.add([(QUESTION, [9, 9, 9])], right=[0])


def test_each_question_of_the_sample_data_has_an_answer(tiny: Callable[[str], dict[str, Any]]) -> None:
    data = component(tiny("glm"), "eval_data")
    assert len(data) == 200
    assert all(int(question["answers"].sum()) == 1 for question in data)
    assert len({int(question["answers"].int().argmax()) for question in data}) == 3


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def without_targets(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["target"]


def without_questions(path: Path) -> None:
    with h5py.File(path, "a") as file:
        group = file["choice_start_end"]
        group.attrs["h5sparse_shape"] = (0, 2)
        del group["indptr"]
        group["indptr"] = np.zeros(1, dtype=np.int64)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            damaged,
            "cannot read the HDF5 file\n  where:   {path}\n  given:   1000 bytes; ",
            id="cut off",
        ),
        pytest.param(
            without_targets,
            "the HDF5 file lacks some of its arrays\n  where:   {path}\n"
            "  given:   answer_idx, answer_start_end, choice_start_end, logit_mask, mask, position, text\n"
            "  allowed: text, target, logit_mask, position, mask, choice_start_end, answer_idx, answer_start_end\n"
            "  do:      missing: target",
            id="an array missing",
        ),
        pytest.param(
            without_questions,
            "no questions in this split of the data set\n  where:   {path}\n  key:     data_dir",
            id="empty split",
        ),
        pytest.param(Path.unlink, "no such file in the data set\n  where:   {path}\n  key:     data_dir", id="missing"),
    ],
)
def test_what_cannot_be_used_is_named(
    written: str, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / "copy.hdf5"
    shutil.copy(written, path)
    damage(path)
    with pytest.raises(ConfigError) as caught:
        eval_questions(str(path))
    assert str(caught.value).startswith(message.format(path=path))
