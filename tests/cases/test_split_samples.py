"""Equal samples have the same loss and gradients in each split into micro steps, in the cases of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from shipped import FAMILIES
from torch import nn

from flagperf.contract.components import component
from flagperf.trainer.pytorch.loading import Seeded
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.step_loss import StepLoss

QUICK = ("bert", "cpm", "transformer")  # one with two means, and two with predicted tokens
WEIGHTED = {*QUICK, "longformer", "llama2_70b_lora", "llama3_1b_lora", "detr", "wav2vec2", "tacotron2"}
NORM, BALANCE = "batch norm of a micro batch", "the balance of experts in a micro batch"
PROPOSALS = "the mean is over proposals, which the network chooses"
OTHERWISE = {  # case → what depends on the split of its samples
    **dict.fromkeys(("resnet50", "mobilenetv2", "efficientnet", "retinanet", "tacotron2"), NORM),
    **dict.fromkeys(("mixtral_8x7b", "qwen1_5_moe", "deepseek_v3", "gpt_oss_20b"), BALANCE),
    **dict.fromkeys(("faster_rcnn", "mask_rcnn"), PROPOSALS),
    **dict.fromkeys(("vit", "efficientnet", "swin_transformer", "bigtransfer"), "images of a micro batch are mixed"),
    "wav2vec2": "masks and negatives of a micro batch",
}
CPU = torch.device("cpu")


def of_one_shape(samples: Iterable[Any]) -> Iterator[Any]:
    """The samples whose images are as large as the first: smaller ones are filled up, which their borders see."""
    first: Any = ()
    for sample in samples:
        shape = sample[0].shape if isinstance(sample, tuple) and sample[0].dim() == 3 else None
        first = shape if first == () else first
        if shape == first:
            yield sample


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in FAMILIES],
)
def test_a_step_does_not_depend_on_the_split(tiny: Callable[[str], dict[str, Any]], case: str) -> None:
    config = tiny(case)
    torch.manual_seed(1)
    network, task, data = (component(config, key) for key in ("network", "task", "train_data"))
    assert task.weighted == (case in WEIGHTED)
    if case in OTHERWISE:
        return
    for module in network.train().modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    samples = list(islice(of_one_shape(map(data.__getitem__, range(len(data)))), 8))
    collate = Seeded(data).collate

    def step(*numbers: int) -> tuple[float, float]:
        """Loss and norm of the gradients, with so many samples in each micro step."""
        network.zero_grad()
        loss, rest = StepLoss(task, World(), len(numbers)), iter(samples)
        batches = [collate([next(rest) for _ in range(number)]) for number in numbers]
        moved = [task.to_device(batch, CPU, torch.contiguous_format) for batch in batches]
        losses = [loss.of(network, *given) / len(numbers) for given in loss.given(moved)]
        for each in losses:
            each.backward()
        gradients = [parameter.grad.flatten() for parameter in network.parameters() if parameter.grad is not None]
        return torch.stack(losses).sum().item(), torch.cat(gradients).norm().item()

    whole = step(8)
    assert step(4, 4) == pytest.approx(whole, rel=1e-4)
    if task.weighted:
        assert step(1, 5, 2) == pytest.approx(whole, rel=1e-4)
