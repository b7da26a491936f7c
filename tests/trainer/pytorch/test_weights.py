"""init_checkpoint: weights that fit are loaded, others are refused with what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toy

from flagperf.errors import ConfigError


def weights() -> dict[str, torch.Tensor]:
    """Weights of the network of toy.py."""
    torch.manual_seed(99)
    return dict(toy.network().state_dict())


def save_arrays(given: dict[str, torch.Tensor], path: Path) -> None:
    np.savez(path, **{name: tensor.numpy() for name, tensor in given.items()})


@pytest.mark.parametrize(
    ("name", "save"),
    [pytest.param("start.pt", torch.save, id="torch.save"), pytest.param("start.npz", save_arrays, id="npz")],
)
def test_training_starts_from_the_file(name: str, save: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / name
    save(weights(), path)
    settings = {"train_batch_size": 64, "max_steps": 1}
    loaded = toy.losses(toy.train(toy.config(init_checkpoint=str(path), **settings), tmp_path))
    network, points = toy.network(), toy.Points(64)
    network.load_state_dict(weights())
    loss = torch.nn.functional.cross_entropy(network(points.inputs), points.labels)
    assert loaded == [pytest.approx(loss.item(), rel=1e-6)]
    assert loaded != toy.losses(toy.train(toy.config(**settings), tmp_path))


class Published(toy.Classification):
    """Knows the names of a published file."""

    def initial_weights(self, checkpoint: Any) -> dict[str, torch.Tensor]:
        return {name.removeprefix("module."): tensor for name, tensor in checkpoint["state_dict"].items()}


def test_the_task_knows_other_names(tmp_path: Path) -> None:
    torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in weights().items()}}, tmp_path / "w.pt")
    settings = {"init_checkpoint": str(tmp_path / "w.pt"), "max_steps": 1}
    events = toy.train(toy.config(task={"_target_": "test_weights.Published"}, **settings), tmp_path)
    torch.save(weights(), tmp_path / "w.pt")
    assert toy.losses(events) == toy.losses(toy.train(toy.config(**settings), tmp_path))


class Backbone(toy.Classification):
    """Starts from weights of the first layer alone."""

    def pretrained(self, network: torch.nn.Module) -> torch.nn.Module:
        return network[0]  # type: ignore[index,no-any-return]


def test_the_task_knows_which_part_is_filled(tmp_path: Path) -> None:
    """The rest keeps the weights that it has without the file."""
    first = torch.nn.Linear(8, 16)
    torch.save(first.state_dict(), tmp_path / "w.pt")
    settings = {"train_batch_size": 64, "max_steps": 1}
    task = {"task": {"_target_": "test_weights.Backbone"}, "init_checkpoint": str(tmp_path / "w.pt")}
    loaded = toy.losses(toy.train(toy.config(**settings, **task), tmp_path))
    torch.manual_seed(0)
    network, points = toy.network(), toy.Points(64)
    network[0].load_state_dict(first.state_dict())
    loss = torch.nn.functional.cross_entropy(network(points.inputs), points.labels)
    assert loaded == [pytest.approx(loss.item(), rel=1e-6)]


def without(given: dict[str, torch.Tensor]) -> Any:
    del given["3.bias"]
    return given


def beside(given: dict[str, torch.Tensor]) -> Any:
    return given | {"4.weight": torch.ones(1)}


def reshaped(given: dict[str, torch.Tensor]) -> Any:
    return given | {"0.weight": torch.ones(16, 9)}


def foreign(_: dict[str, torch.Tensor]) -> Any:
    return {f"layer{number}": torch.ones(1) for number in range(4)}


MISFITS = {
    "missing": (without, "missing: 3.bias"),
    "too many": (beside, "not in the network: 4.weight"),
    "shape": (reshaped, "shape of 0.weight: [16, 9], the network has [16, 8]"),
    "all": (foreign, "missing: 0.weight; missing: 0.bias; missing: 3.weight; missing: 3.bias; "
            "not in the network: layer0 … and 3 more"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), MISFITS.values(), ids=MISFITS.keys())
def test_misfits(change: Callable[[dict[str, torch.Tensor]], Any], problem: str, tmp_path: Path) -> None:
    path = tmp_path / "start.pt"
    torch.save(change(weights()), path)
    with pytest.raises(ConfigError) as refused:
        toy.train(toy.config(init_checkpoint=str(path)), tmp_path)
    assert str(refused.value) == (
        "the weights do not fit the network\n"
        f"  where:   {path}\n"
        "  key:     init_checkpoint\n"
        f"  given:   {problem}\n"
        "  do:      use the checkpoint that belongs to this case and size"
    )


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no such file\n.*\n  key:     init_checkpoint\n  given:   /nowhere/w.pt$"):
        toy.train(toy.config(init_checkpoint="/nowhere/w.pt"), tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 half a zip"], ids=["empty", "text", "torn"])
def test_unreadable(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "start.pt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"^cannot read the weights\n") as refused:
        toy.train(toy.config(init_checkpoint=str(path)), tmp_path)
    assert refused.value.where == str(path)


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "start.pt"
    torch.save({"0.weight": Path("/tmp")}, path)
    with pytest.raises(ConfigError, match=r"allowed: a file of torch.save that holds tensors"):
        toy.train(toy.config(init_checkpoint=str(path)), tmp_path)
