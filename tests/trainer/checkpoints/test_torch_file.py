"""Files of torch.save, read without torch: the same numbers, and nothing else is made of what they hold."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flagperf.trainer.checkpoints import torch_file

NUMBERS = torch.arange(12.0).reshape(3, 4)
SAVED = {
    "as it is": NUMBERS,
    "transposed": NUMBERS.T,
    "a part of a storage": NUMBERS[1:, 2:],
    "a parameter": torch.nn.Parameter(torch.ones(2)),
    "without dimensions": torch.tensor(3),
    "half": torch.ones(2, dtype=torch.float16),
    "truths": torch.tensor([True, False]),
    "empty": torch.empty(0, 3),
}


def test_tensors_come_as_arrays(tmp_path: Path) -> None:
    torch.save({"model": OrderedDict(SAVED), "step": 7, "names": ["a", "b"]}, tmp_path / "file.pt")
    found = torch_file.read(tmp_path / "file.pt")
    assert {key: value for key, value in found.items() if key != "model"} == {"step": 7, "names": ["a", "b"]}
    assert list(found["model"]) == list(SAVED)
    for name, tensor in SAVED.items():
        wanted = tensor.detach().numpy()
        np.testing.assert_array_equal(found["model"][name], wanted, strict=True)


class Harmful:
    """Calls a function when it is unpickled."""

    def __reduce__(self) -> Any:
        return (print, ("harm",))


@pytest.mark.parametrize(
    ("saved", "error", "message"),
    [
        pytest.param(Harmful(), pickle.UnpicklingError, "the file holds a __builtin__.print", id="code"),
        pytest.param(
            torch.ones(1, dtype=torch.bfloat16),
            pickle.UnpicklingError,
            "the file holds a torch.BFloat16Storage",
            id="kind",
        ),
    ],
)
def test_anything_else_is_refused(saved: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    torch.save(saved, tmp_path / "file.pt")
    with pytest.raises(error) as refused:
        torch_file.read(tmp_path / "file.pt")
    assert str(refused.value) == message


def test_other_files_are_refused(tmp_path: Path) -> None:
    torch.save(NUMBERS, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("readme", "no tensors")
    for name in ("old.pt", "other.pt"):
        with pytest.raises(zipfile.BadZipFile):
            torch_file.read(tmp_path / name)
