"""Images from texts: the network starts as the reference's, patches have its order, and bad data is named."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import default_collate

from cases.text_to_image.data import Embedded
from cases.text_to_image.network import Block
from cases.text_to_image.task import TextToImage, places
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.build import Recomputed, recompute

Config = dict[str, Any]


@pytest.fixture
def evaluation(tiny: Callable[[str], Config]) -> Embedded:
    data: Embedded = component(tiny("flux1"), "eval_data")
    return data


def test_the_initial_weights_are_the_references(tiny: Callable[[str], Config], evaluation: Embedded) -> None:
    network = component(tiny("flux1"), "network")
    assert sum(isinstance(module, Block) for module in network.modules()) == 4
    width, largest = 96, {name: layer.weight.abs().max().item() for name, layer in linear_layers(network)}
    assert not any(layer.bias.any() for _, layer in linear_layers(network))
    bounds = {  # Xavier's, of the reference's layers; torchtitan names them qkv, mlp.0, linear1 and linear2
        "transformer_blocks.0.attn.to_q": (width + 3 * width),
        "transformer_blocks.0.attn.add_v_proj": (width + 3 * width),
        "transformer_blocks.0.ff.net.0.proj": (width + 4 * width),
        "single_transformer_blocks.0.attn.to_k": (width + 7 * width),
        "single_transformer_blocks.0.proj_mlp": (width + 7 * width),
        "single_transformer_blocks.0.proj_out": (5 * width + width),
        "context_embedder": (32 + width),
    }
    expected = {name: pytest.approx((6 / total) ** 0.5, rel=0.01) for name, total in bounds.items()}
    assert {name: largest[name] for name in bounds} == expected
    zeros = {name for name, value in largest.items() if value == 0}
    norms = {name for name in largest if "norm" in name}
    assert zeros == {*norms, "proj_out"} and len(norms) == 2 * 2 + 2 + 1
    batch = default_collate([evaluation[index] for index in range(16)])
    wanted = (batch["noise"] - batch["latent"]).square().mean().item()
    with torch.no_grad():
        metrics = TextToImage().evaluate(network, [batch], torch.device("cpu"))
    assert metrics == {"eval_loss": pytest.approx(wanted, rel=1e-5)}


def test_both_kinds_of_blocks_recompute(tiny: Callable[[str], Config], evaluation: Embedded) -> None:
    network, batch = component(tiny("flux1"), "network"), default_collate([evaluation[3]])
    nn.init.normal_(network.proj_out.weight)
    gradients = []
    for again in (False, True):
        if again:
            recompute(network, tiny("flux1")["checkpoint_modules"])
        network.zero_grad()
        TextToImage().loss(network, batch).backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    assert all(torch.equal(first, second) for first, second in zip(*gradients, strict=True))
    assert sum(isinstance(module.forward, Recomputed) for module in network.modules()) == 4


def linear_layers(network: nn.Module) -> list[tuple[str, nn.Linear]]:
    return [(name, module) for name, module in network.named_modules() if isinstance(module, nn.Linear)]


def test_patches_have_the_order_of_the_reference() -> None:
    """(latents "b c (h y) (w x)" as "b (h w) (c y x)"; each patch at its row and column)."""
    latents = torch.randn(2, 3, 4, 6)
    batch = {"text": torch.zeros(2, 5, 7), "pooled": torch.zeros(2, 8)}
    seen: dict[str, Tensor] = {}

    def network(**arguments: Any) -> tuple[Tensor]:
        seen.update(arguments)
        return (arguments["hidden_states"],)

    same = TextToImage().velocity(network, latents, torch.zeros(2), batch)  # type: ignore[arg-type]
    assert torch.equal(same, latents)
    patches = latents.view(2, 3, 2, 2, 3, 2).permute(0, 2, 4, 1, 3, 5).reshape(2, 6, 12)
    assert torch.equal(seen["hidden_states"], patches)
    rows = [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
    assert places(2, 3, torch.device("cpu")).tolist() == seen["img_ids"].tolist() == rows
    assert seen["txt_ids"].tolist() == [[0, 0, 0]] * 5


def test_sample_data_is_read_back(tiny: Callable[[str], Config], evaluation: Embedded) -> None:
    training = component(tiny("flux1"), "train_data")
    assert (len(training), len(evaluation), len(evaluation.files)) == (1437, 360, 2)
    evaluation.check()
    digits = load_digits()
    for index in (0, 179, 180, 359):  # the ends of both files
        sample = evaluation[index]
        image = sample["latent"][0].flatten()
        assert np.corrcoef(image, digits.images[5 * index].ravel())[0, 1] > 0.97
        assert sample["time"] == index % 8 / 8
    again = pickle.loads(pickle.dumps(evaluation))  # for processes of the loader
    assert all(torch.equal(again[7][name], value) for name, value in evaluation[7].items())
    assert not torch.equal(training[7]["noise"], training[7]["noise"])


def test_an_empty_text_replaces_a_text(tiny: Callable[[str], Config]) -> None:
    config = tiny("flux1")
    folder = Path(config["data_dir"], config["empty_path"])
    always = component({**config, "train_data": {**config["train_data"], "drop": 1.0}}, "train_data")
    assert np.allclose(always[3]["text"].float(), np.load(folder / "t5_empty.npy")[0], atol=0.02)
    never = component({**config, "train_data": {**config["train_data"], "drop": 0.0}}, "train_data")
    assert not torch.equal(always[3]["pooled"], never[3]["pooled"])


def without_column(folder: Path) -> None:
    path = folder / "data-00001-of-00002.arrow"
    table = pyarrow.ipc.open_stream(path.read_bytes()).read_all().drop_columns(["mean"])
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def with_other_rows(folder: Path, name: str, value: Any) -> None:
    path = folder / "data-00000-of-00002.arrow"
    table = pyarrow.ipc.open_stream(path.read_bytes()).read_all()
    place = table.column_names.index(name)
    column = pyarrow.array([value] * len(table), table.schema.field(name).type)
    table = table.set_column(place, table.schema.field(name), column)
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda folder: (folder / "data-00000-of-00002.arrow").write_bytes(b"nothing"),
            "cannot read the Arrow file",
            id="no Arrow",
        ),
        pytest.param(without_column, "the Arrow file lacks some of its columns", id="no column"),
        pytest.param(
            lambda folder: with_other_rows(folder, "t5_encodings", b"text"), "a row holds no tensor", id="no tensor"
        ),
        pytest.param(lambda folder: with_other_rows(folder, "timestep", None), "a row has no time", id="no time"),
    ],
)
def test_bad_data_is_named(
    tiny: Callable[[str], Config], tmp_path: Path, damage: Callable[[Path], Any], message: str
) -> None:
    config = tiny("flux1")
    folder = tmp_path / "data"
    shutil.copytree(config["eval_data"]["folder"], folder)
    damage(folder)
    with pytest.raises(ConfigError, match=message) as raised:
        component({**config, "eval_data": {**config["eval_data"], "folder": str(folder)}}, "eval_data").check()
    assert str(folder) in str(raised.value)


def test_no_embeddings_of_an_empty_text(tiny: Callable[[str], Config], tmp_path: Path) -> None:
    config = tiny("flux1")
    with pytest.raises(ConfigError, match="cannot read the embeddings of an empty text"):
        component({**config, "train_data": {**config["train_data"], "empty": str(tmp_path)}}, "train_data")
