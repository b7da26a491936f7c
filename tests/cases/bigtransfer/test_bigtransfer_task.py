"""Published weights of Big Transfer, as files of the authors and of timm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.build import load_weights

Tiny = Callable[[str], dict[str, Any]]


def published(seed: int) -> dict[str, np.ndarray]:
    """What an .npz file of the authors holds, for the tiny network and 21 classes."""
    generator = np.random.default_rng(seed)
    arrays: dict[str, Any] = {"root_block/standardized_conv2d/kernel": (7, 7, 3, 64)}
    width = 64
    for stage, out in enumerate((128, 128, 256, 256), start=1):
        unit, middle = f"block{stage}/unit01", out // 4
        kernels = {"a": (1, 1, width, middle), "b": (3, 3, middle, middle), "c": (1, 1, middle, out)}
        for letter, shape in kernels.items():
            arrays[f"{unit}/{letter}/standardized_conv2d/kernel"] = shape
            arrays[f"{unit}/{letter}/group_norm/gamma"] = arrays[f"{unit}/{letter}/group_norm/beta"] = (shape[2],)
        arrays[f"{unit}/a/proj/standardized_conv2d/kernel"] = (1, 1, width, out)
        width = out
    arrays |= {"group_norm/gamma": (256,), "group_norm/beta": (256,)}
    arrays |= {"head/conv2d/kernel": (1, 1, 256, 21), "head/conv2d/bias": (21,)}
    return {f"resnet/{name}": generator.standard_normal(shape, np.float32) for name, shape in arrays.items()}


def as_timm_reads_it(network: nn.Module, folder: Path) -> dict[str, Tensor]:
    """The network after timm's own reader, with the last layer at zero."""
    path = folder / "published.npz"
    np.savez(path, **published(1))
    with torch.no_grad():
        network.load_pretrained(str(path))
        network.head.fc.weight.zero_()
        network.head.fc.bias.zero_()
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_file_of_the_authors(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("bigtransfer")
    network, task = component(config, "network"), component(config, "task")
    expected = as_timm_reads_it(network, tmp_path)
    given = {name: torch.from_numpy(array) for name, array in published(1).items()}
    assert equal(dict(task.initial_weights(given)), expected)


def test_file_of_timm(tiny: Tiny, tmp_path: Path) -> None:
    """With 21 classes in the file and ten in the network."""
    config = tiny("bigtransfer")
    network, task = component(config, "network"), component(config, "task")
    expected = as_timm_reads_it(component(config, "network"), tmp_path)
    other_head = {"head.fc.weight": torch.ones(21, 256, 1, 1), "head.fc.bias": torch.ones(21)}
    torch.save(expected | other_head, tmp_path / "timm.pt")
    load_weights(network, task, str(tmp_path / "timm.pt"))
    assert equal(network.state_dict(), expected)


def test_weights_of_another_network_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("bigtransfer")
    network, task = component(config, "network"), component(config, "task")
    weights = published(1)
    del weights["resnet/block2/unit01/b/group_norm/gamma"]
    weights["resnet/block5/unit01/a/group_norm/gamma"] = np.zeros(3, np.float32)
    torch.save({name: torch.from_numpy(array) for name, array in weights.items()}, tmp_path / "other.pt")
    with pytest.raises(ConfigError) as caught:
        load_weights(network, task, str(tmp_path / "other.pt"))
    assert str(caught.value) == (
        "the weights do not fit the network\n"
        f"  where:   {tmp_path / 'other.pt'}\n"
        "  key:     init_checkpoint\n"
        "  given:   missing: stages.1.blocks.0.norm2.weight; "
        "not in the network: stages.4.blocks.0.norm1.weight\n"
        "  do:      use the checkpoint that belongs to this case and size"
    )
