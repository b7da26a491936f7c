"""The image cases beside resnet50, each against its library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import timm
import torch
from gradients import gradient_norm
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import default_collate
from torch.utils.flop_counter import FlopCounterMode
from torchvision import models
from torchvision.models.efficientnet import FusedMBConvConfig, MBConvConfig
from torchvision.transforms import v2

from flagperf.config.compose import compose
from flagperf.contract.components import component

Tiny = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize(
    ("case", "parameters", "gflop"),
    [
        pytest.param("mobilenetv2", 3_504_872, {224: 0.60}, id="mobilenetv2"),
        pytest.param("vit", 86_567_656, {224: 35.13}, id="vit"),
        pytest.param("efficientnet", 21_458_488, {224: 5.70, 384: 16.7}, id="efficientnet"),
        pytest.param("swin_transformer", 28_288_354, {224: 8.98}, id="swin_transformer"),
        pytest.param("bigtransfer", 236_335_208, {480: 421}, id="bigtransfer", marks=pytest.mark.slow),
    ],
)
def test_full_size(case: str, parameters: int, gflop: dict[int, float]) -> None:
    """Parameters, and operations by image size, are those of the original implementations."""
    config = compose([f"model={case}", "size=full", "data_dir=/data"]).config
    with torch.device("meta"):  # shapes only
        network = component(config, "network")
        counted = {size: forward_gflop(network, size) for size in gflop}
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
    assert counted == pytest.approx(gflop, rel=0.01)


def forward_gflop(network: nn.Module, size: int) -> float:
    """Operations of one image, in training mode, with attention that is counted."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        network(torch.rand(1, 3, size, size))
    return counter.get_total_flops() / 1e9


IMAGENET = v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
HALF = v2.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])


def mobilenetv2() -> nn.Module:
    stages = [[1, 16, 1, 1], [4, 24, 2, 2], [4, 32, 2, 2]]
    return models.mobilenet_v2(num_classes=10, inverted_residual_setting=stages)


def vit() -> nn.Module:
    return models.VisionTransformer(32, 8, 2, 4, 128, 256, num_classes=10)


def efficientnet() -> nn.Module:
    stages = [
        FusedMBConvConfig(1, 3, 1, 16, 16, 1),
        FusedMBConvConfig(4, 3, 2, 16, 32, 2),
        MBConvConfig(4, 3, 2, 32, 64, 2),
    ]
    return models.EfficientNet(stages, dropout=0.2, stochastic_depth_prob=0.1, num_classes=10, last_channel=256)


def swin_transformer() -> nn.Module:
    return models.SwinTransformer([4, 4], 48, [2, 2], [3, 6], [4, 4], num_classes=10, stochastic_depth_prob=0.0)


def bigtransfer() -> nn.Module:
    return timm.models.resnetv2.ResNetV2(
        [1, 1, 1, 1], (128, 128, 256, 256), num_classes=10, stem_type="fixed", conv_layer=timm.layers.StdConv2d
    )


def mixed(mixup: float, cutmix: float) -> v2.Transform:
    return v2.RandomChoice([v2.MixUp(alpha=mixup, num_classes=10), v2.CutMix(alpha=cutmix, num_classes=10)])


@pytest.mark.parametrize(
    ("original", "normalize", "mix", "smoothing"),
    [
        pytest.param(mobilenetv2, IMAGENET, None, 0.0, id="mobilenetv2"),
        pytest.param(vit, IMAGENET, partial(mixed, 0.05, 0.05), 0.11, id="vit"),
        pytest.param(efficientnet, IMAGENET, partial(mixed, 0.1, 0.1), 0.1, id="efficientnet"),
        pytest.param(swin_transformer, IMAGENET, partial(mixed, 0.05, 0.05), 0.1, id="swin_transformer"),
        pytest.param(bigtransfer, HALF, partial(v2.MixUp, alpha=0.1, num_classes=10), 0.0, id="bigtransfer"),
    ],
)
def test_one_step_equals_the_library(
    tiny: Tiny,
    original: Callable[[], nn.Module],
    normalize: v2.Transform,
    mix: Callable[[], v2.Transform] | None,
    smoothing: float,
) -> None:
    """Loss and norm of the gradients, in double precision because norms over few numbers magnify rounding."""
    config = tiny(original.__name__)
    torch.manual_seed(1)
    network, task, data = (component(config, key) for key in ("network", "task", "eval_data"))
    images, labels = default_collate([data[index] for index in range(0, 360, 45)])
    pixels, _ = task.to_device((images, labels), torch.device("cpu"), torch.contiguous_format)
    network = jolted(network)
    torch.manual_seed(2)
    loss = task.loss(network, (pixels.double(), labels))
    loss.backward()

    torch.manual_seed(1)
    direct = jolted(original())
    expected_pixels = normalize(images / 255)
    assert torch.allclose(pixels, expected_pixels, rtol=0, atol=1e-6)
    torch.manual_seed(2)
    inputs, targets = mix()(pixels.double(), labels) if mix else (pixels.double(), functional.one_hot(labels, 10))
    smoothed = targets * (1 - smoothing) + smoothing / 10
    expected = -(smoothed * direct(inputs).log_softmax(dim=1)).sum(dim=1).mean()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert gradient_norm(network) == pytest.approx(gradient_norm(direct), rel=1e-6)


def jolted(network: nn.Module) -> nn.Module:
    """Away from where it begins, which for some layers is zero, so that every parameter has a gradient."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return network.double()
