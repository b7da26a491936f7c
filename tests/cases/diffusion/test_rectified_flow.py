"""Rectified flow: a block of the network is timm's, and the path from noise to an image is straight."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from timm.models.vision_transformer import Block as TimmBlock
from torch import Tensor, nn
from torch.utils.data import default_collate

from cases.diffusion.network import Block
from cases.diffusion.task import RectifiedFlow, pixels
from flagperf.contract.components import component

Config = dict[str, Any]


def test_a_block_without_shift_and_scale_is_the_block_of_timm() -> None:
    torch.manual_seed(1)
    plain = partial(nn.LayerNorm, eps=1e-6, elementwise_affine=False)
    library = TimmBlock(
        32,
        4,
        qkv_bias=True,
        norm_layer=plain,
        act_layer=partial(nn.GELU, approximate="tanh"),  # type: ignore[arg-type]
    )
    block = Block(32, 4)
    missing = block.load_state_dict(library.state_dict(), strict=False)
    assert missing == (["modulation.weight", "modulation.bias"], [])
    patches, condition = torch.randn(2, 5, 32), torch.randn(2, 32)
    assert torch.equal(block(patches, condition), patches)
    with torch.no_grad():
        block.modulation.bias.view(6, 32)[[2, 5]] = 1  # the gates
    assert torch.allclose(block(patches, condition), library(patches), atol=1e-6)


@pytest.fixture
def batch(tiny: Callable[[str], Config]) -> dict[str, Tensor]:
    data = component(tiny("dit"), "eval_data")
    assert torch.equal(data[3]["noise"], data[3]["noise"])  # the same in each evaluation
    result: dict[str, Tensor] = default_collate([data[index] for index in range(64)])
    return result


def test_the_true_velocity_generates_the_images(batch: dict[str, Tensor]) -> None:
    task, velocity = RectifiedFlow(steps=3), batch["noise"] - pixels(batch["image"])
    assert set(batch["time"].tolist()) == {number / 8 for number in range(8)}
    images = task.generate(lambda *_: velocity, batch["noise"], batch["label"])  # type: ignore[arg-type]
    assert torch.allclose(images, pixels(batch["image"]), atol=1e-5)
    metrics = task.evaluate(lambda *_: velocity, [batch], torch.device("cpu"))  # type: ignore[arg-type]
    assert metrics == {"eval_loss": 0, "frechet_distance": pytest.approx(0, abs=1e-3)}


def test_noise_is_far_from_the_images(tiny: Callable[[str], Config], batch: dict[str, Tensor]) -> None:
    config = tiny("dit")
    task, network = component(config, "task"), component(config, "network").eval()
    with torch.no_grad():
        metrics = task.evaluate(network, [batch], torch.device("cpu"))
    wanted = (batch["noise"] - pixels(batch["image"])).square().mean().item()  # the new network gives zeros
    assert metrics["eval_loss"] == pytest.approx(wanted, rel=1e-5)
    assert metrics["frechet_distance"] > 10
