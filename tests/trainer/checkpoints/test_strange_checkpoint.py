"""A checkpoint of someone else, with the hash that belongs to it: no code in it runs, and the message says so."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toy

from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints import torch_file
from flagperf.trainer.checkpoints.files import reading
from flagperf.trainer.paddle.pickled import check_pickle
from flagperf.trainer.pytorch.parallel.saved import read_values

MESSAGE = """this is no checkpoint of flagperf
  where:   {path}
  key:     resume
  given:   a file that holds other objects, or parts of one ({error})
  allowed: a file of a training: tensors and plain values
  do:      start again without resume, or ask who wrote the file; nothing in it was executed"""


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def by_torch(path: Path, content: Any) -> None:
    torch.save(content, path)


def by_paddle(path: Path, content: Any) -> None:
    """As paddle.save does."""
    path.write_bytes(pickle.dumps(content, protocol=4))


def resumed_by_pytorch(path: Path) -> None:
    toy.train(toy.config(max_steps=3, resume=str(path.parent)), path.parent)


def resumed_by_paddle(path: Path) -> None:
    with reading(path):
        check_pickle(path)


STRANGE: dict[str, tuple[Callable[[Path, Any], None], Callable[[Path], None], Any, str]] = {
    "PyTorch, code": (by_torch, resumed_by_pytorch, Harmful, "UnpicklingError"),
    "PyTorch, weights alone": (by_torch, resumed_by_pytorch, lambda _: {"weight": torch.ones(2)}, "KeyError"),
    "PyTorch, no file of torch": (
        lambda path, _: path.write_bytes(b"x"),
        resumed_by_pytorch,
        Harmful,
        "UnpicklingError",
    ),
    "Paddle, code": (by_paddle, resumed_by_paddle, Harmful, "UnpicklingError"),
}


@pytest.mark.torch
@pytest.mark.parametrize(("write", "resume", "content", "error"), STRANGE.values(), ids=STRANGE.keys())
def test_it_is_refused(
    write: Callable[[Path, Any], None], resume: Callable[[Path], None], content: Any, error: str, tmp_path: Path
) -> None:
    path, harm = tmp_path / "step000000005.pt", tmp_path / "harm"
    write(path, content(harm))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")
    with pytest.raises(ConfigError) as refused:
        resume(path)
    assert str(refused.value) == MESSAGE.format(path=path, error=error)
    assert not harm.exists()


@pytest.mark.torch
@pytest.mark.parametrize("harmful", [".metadata", "own.pt"])
def test_the_folder_of_a_divided_training_is_refused(harmful: str, tmp_path: Path) -> None:
    from torch.distributed.checkpoint import metadata

    by_paddle(tmp_path / ".metadata", metadata.Metadata({}))
    by_torch(tmp_path / "own.pt", {})
    (by_torch if harmful == "own.pt" else by_paddle)(tmp_path / harmful, Harmful(tmp_path / "harm"))
    with pytest.raises(ConfigError) as refused:
        read_values(tmp_path)
    assert str(refused.value) == MESSAGE.format(path=tmp_path, error="UnpicklingError")
    assert not (tmp_path / "harm").exists()


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that ranks import from. The import of its module makes the file `harm` there."""
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "planted.py").write_text(f"from pathlib import Path\nPath({str(folder / 'harm')!r}).touch()\n")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def naming(module: str, name: str) -> bytes:
    """A pickle that holds only the name."""
    return b"c" + f"{module}\n{name}\n".encode() + b"."


NAMES = {
    "a planted module": ("planted", "GeneratorState"),
    "a module of Paddle that starts a program": ("paddle.distributed.launch.__main__", "GeneratorState"),
    "a class beside the description": ("torch.distributed.checkpoint.filesystem", "FileSystemWriter"),
    "a module in the description": ("torch.distributed.checkpoint.filesystem", "os.system"),
    "a function of torch": ("torch", "load"),
    "a planted module for a type": ("planted", "float32"),
}


@pytest.mark.torch
@pytest.mark.parametrize(("module", "name"), NAMES.values(), ids=NAMES.keys())
def test_no_module_is_imported_for_a_name(module: str, name: str, planted: Path, tmp_path: Path) -> None:
    from flagperf.trainer.pytorch.parallel.saved import read_metadata

    (tmp_path / ".metadata").write_bytes(naming(module, name))
    readers: dict[Path, Callable[[Path], Any]] = {
        tmp_path: read_metadata,
        tmp_path / ".metadata": resumed_by_paddle,
        tmp_path / "own.pt": torch_file.read,
    }
    with zipfile.ZipFile(tmp_path / "own.pt", "w") as file:
        file.writestr("own/data.pkl", naming(module, name))
    for path, read in readers.items():
        with pytest.raises(ConfigError) as refused, reading(path):
            read(path)
        assert str(refused.value) == MESSAGE.format(path=path, error="UnpicklingError")
    assert not (planted / "harm").exists()


@pytest.mark.torch
@pytest.mark.parametrize("forced", ["", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"])
def test_no_entry_of_a_divided_training_is_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forced: str
) -> None:
    """PyTorch reads an entry with code in it where the index says that the entry is no tensor."""
    from torch.distributed.checkpoint import filesystem
    from torch.distributed.checkpoint.state_dict_saver import save

    from flagperf.trainer.pytorch.parallel.saved import read_metadata, read_tensor

    with pytest.warns(UserWarning, match="single process"):
        save({"weight": Harmful(tmp_path / "harm")}, storage_writer=filesystem.FileSystemWriter(tmp_path), no_dist=True)
    assert list(read_metadata(tmp_path).state_dict_metadata) == ["weight"]
    if forced:
        monkeypatch.setenv(forced, "1")
    with pytest.raises(ConfigError) as refused:
        read_tensor(tmp_path, "weight", torch.ones(2))
    assert str(refused.value) == MESSAGE.format(path=tmp_path, error="UnpicklingError")
    assert not (tmp_path / "harm").exists()
    assert os.environ.get(forced, "") == "1" * bool(forced)
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_what_paddle_writes_is_read(tmp_path: Path) -> None:
    state = {"network": OrderedDict(weight=("name", np.ones(2, "f4"))), "random": [random.getstate()]}
    by_paddle(tmp_path / "own.pt", state | {"step": np.float64(3)})
    check_pickle(tmp_path / "own.pt")
