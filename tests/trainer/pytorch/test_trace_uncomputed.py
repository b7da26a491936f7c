"""Matrix products that compute nothing: their results have the shapes, strides and types of computed results."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor, nn

from flagperf.config.compose import compose
from flagperf.plan.plan import make_plan
from flagperf.trainer.pytorch.trace.traced import counts_of_values, trace
from flagperf.trainer.pytorch.trace.uncomputed import NOISE, ProductsUncomputed

IMAGES = torch.ones(2, 8, 17, 19)


@pytest.mark.slow  # the first tensor without values takes seconds
@pytest.mark.parametrize(
    ("network", "batch"),
    [
        pytest.param(nn.Conv2d(8, 4, 3, stride=2, padding=1), IMAGES, id="with stride"),
        pytest.param(nn.Conv2d(8, 8, 3, groups=8, bias=False), IMAGES, id="grouped, no bias"),
        pytest.param(nn.ConvTranspose2d(8, 4, 2, 2), IMAGES, id="transposed"),
        pytest.param(nn.Conv2d(8, 16, 3), IMAGES.to(memory_format=torch.channels_last), id="channels last"),
        pytest.param(nn.Conv1d(8, 16, 5), IMAGES[:, :, 0], id="one dimension"),
        pytest.param(nn.Conv2d(8, 4, 3).bfloat16(), IMAGES.bfloat16(), id="bf16"),
        pytest.param(nn.Conv2d(8, 4, 1), IMAGES[:0], id="no sample"),
        pytest.param(nn.Linear(19, 4), IMAGES, id="a linear layer"),
        pytest.param(nn.Linear(19, 4, bias=False), IMAGES[0, 0], id="a linear layer, no bias"),
    ],
)
def test_forms(network: nn.Module, batch: Tensor) -> None:
    def forms(mode: AbstractContextManager[object]) -> list[object]:
        images = batch.clone().requires_grad_()
        network.zero_grad()
        with mode:
            output = network(images)
            output.backward(torch.ones_like(output))
        made = [output, images.grad, *(parameter.grad for parameter in network.parameters())]
        return [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in made]

    assert forms(ProductsUncomputed()) == forms(nullcontext())


def test_results_are_noise() -> None:
    with ProductsUncomputed():
        output = nn.Conv2d(8, 4, 1)(IMAGES)
    assert torch.equal(output.flatten(), NOISE[: output.numel()])


@pytest.mark.slow  # networks of transformers and torchvision are imported
def test_steps_of_one_and_two_samples_stand_for_all_batch_sizes() -> None:
    counts_of_values.cache_clear()
    words = ["model=retinanet", "size=tiny", "dry_run=true"]
    jobs = [compose([*words, *change]) for change in ([], ["train_batch_size=3", "division=open"])]
    traces = [trace(make_plan(job, 1, placeholders=True).config, "", {}) for job in jobs]
    assert [each.samples for each in traces] == [job.train_batch_size for job in jobs]
    assert counts_of_values.cache_info().misses == 2
