"""Image classification: one step as computed with torchvision directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gradients import gradient_norm
from torch import nn
from torch.utils.data import default_collate
from torchvision.datasets import ImageFolder
from torchvision.models import ResNet
from torchvision.models.resnet import Bottleneck
from torchvision.transforms import v2

from flagperf.contract.components import component


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_one_step_equals_torchvision(tiny: Callable[[str], dict[str, Any]], memory_format: torch.memory_format) -> None:
    config = tiny("resnet50")
    indices = [0, 50, 100, 150, 200, 250, 300, 350]
    torch.manual_seed(1)
    network, task, data = (component(config, key) for key in ("network", "task", "eval_data"))
    batch = task.to_device(default_collate([data[i] for i in indices]), torch.device("cpu"), memory_format)
    network = network.double()  # batch norm over few numbers magnifies rounding
    loss = task.loss(network, (batch[0].double(), batch[1]))
    loss.backward()
    norm = nn.utils.clip_grad_norm_(network.parameters(), float("inf"))

    torch.manual_seed(1)
    direct = ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, width_per_group=32).double()
    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    pictures = ImageFolder(f"{config['data_dir']}/val", transform)  # decoded by PIL
    images, labels = default_collate([pictures[i] for i in indices])
    assert torch.equal(batch[0], images)
    expected = nn.CrossEntropyLoss()(direct(images.double()), labels)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
    assert norm.item() == pytest.approx(gradient_norm(direct), rel=1e-6)
    assert (task.samples(batch), task.units(batch)) == (8, 8)
