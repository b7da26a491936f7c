"""What recipes add to the plain one: repeated augmentation, erased rectangles, weight decay for some parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from cases.image_classification.data import RandomErasing, RepeatedAugmentation, images
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.ranks import World

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture
def repeated(data_dir: Callable[[str], Path]) -> RepeatedAugmentation:
    return RepeatedAugmentation(digits(data_dir), repeats=4, ranks=[2, 2])


def digits(data_dir: Callable[[str], Path]) -> ImageFolder:
    return images(str(data_dir("resnet50") / "train"), 10, [v2.Identity()])


def test_repeated_augmentation(repeated: RepeatedAugmentation) -> None:
    """1437 images: 22 batches of 64, each four of the same images in another order."""
    batches = repeated.batches(64, torch.Generator().manual_seed(1))
    assert [len(set(batch)) for batch in batches] == [64] * 22
    groups = [batches[start : start + 4] for start in range(0, 22, 4)]
    for group in groups:
        assert len({frozenset(batch) for batch in group}) == 1
        assert len({tuple(batch) for batch in group}) == len(group)
    assert len({index for batch in batches for index in batch}) == 6 * 64


def test_one_rank_repeats_nothing(data_dir: Callable[[str], Path]) -> None:
    """As in the recipes, whose sampler of repeated images is one for several ranks."""
    batches = RepeatedAugmentation(digits(data_dir), repeats=4, ranks=[1, 1]).batches(64, torch.Generator())
    assert len({index for batch in batches for index in batch}) == 22 * 64


@pytest.mark.parametrize("case", ["vit", "efficientnet"])
def test_the_case_knows_its_ranks(case: str) -> None:
    words = [f"model={case}", "size=full", "data_dir=/data", "dry_run=true", "vendor=nvidia", "hardware=A100"]
    assert compose([*words, "nproc=8"]).config["train_data"]["ranks"] == [1, 8]


def test_ranks_share_the_images_of_a_step(repeated: RepeatedAugmentation) -> None:
    first = [
        next(iter(TrainBatches(repeated, 64, accumulation=1, world=World(rank, 4, rank, 4), seed=1)))
        for rank in range(4)
    ]
    assert len({frozenset(indices) for _, indices in first}) == 1
    assert len({seed for seed, _ in first}) == 4  # augmented differently


def test_erased_is_the_mean_colour() -> None:
    torch.manual_seed(1)
    erased = RandomErasing(1.0, 0.0, MEAN, STD)(torch.zeros(3, 32, 32, dtype=torch.uint8))
    colours = Counter(map(tuple, erased.flatten(1).T.tolist()))
    assert erased.dtype == torch.uint8
    assert set(colours) == {(0, 0, 0), (124, 116, 104)}
    assert 0.02 <= colours[(124, 116, 104)] / 32**2 <= 0.34


def test_erased_is_noise() -> None:
    """Of the mean and deviation of a normalised image, as far as pixels reach."""
    torch.manual_seed(1)
    erase = RandomErasing(1.0, "random", MEAN, STD)
    noise = erase.make_params([torch.zeros(3, 500, 500, dtype=torch.uint8)])["v"]
    normalised = v2.Normalize(MEAN, STD)(noise / 255)
    assert normalised.mean().item() == pytest.approx(0, abs=0.03)
    assert normalised.std().item() == pytest.approx(1, abs=0.06)


def test_seldom_erased() -> None:
    torch.manual_seed(1)
    erase = RandomErasing(0.25, "random", MEAN, STD)
    black = torch.zeros(3, 32, 32, dtype=torch.uint8)
    assert sum(bool(erase(black).any()) for _ in range(1000)) == pytest.approx(250, abs=50)


def test_rand_augment_at_its_strongest(tiny: Callable[[str], dict[str, Any]]) -> None:
    """Every operation takes every magnitude that its normal distribution may give."""
    job = compose(["model=swin_transformer", "size=full", f"data_dir={tiny('swin_transformer')['data_dir']}"])
    augment = component(job.config, "train_data").transform.transforms[3]
    image = v2.functional.to_pil_image(torch.arange(256, dtype=torch.uint8).expand(3, 32, 256))
    for operation in augment.ops:
        operation.prob, operation.magnitude = 1.0, 20
        assert operation(image).size == image.size


def swin_decays(name: str, parameter: nn.Parameter) -> bool:
    """As Microsoft's optimizer.py says it."""
    return not (parameter.ndim == 1 or name.endswith(".bias") or "relative_position_bias_table" in name)


def not_of_batch_norm(name: str, parameter: nn.Parameter) -> bool:
    """Torchvision's set_weight_decay tells norm layers by their class; in this network all others are convolutions
    and one linear layer, whose weights have more dimensions, and biases of layers that have a weight like this."""
    return parameter.ndim > 1 or (name.endswith(".bias") and (".fc" in name or name.startswith("classifier")))


@pytest.mark.parametrize(
    ("case", "decays"),
    [
        pytest.param("swin_transformer", swin_decays, id="swin_transformer: no vectors, no position biases"),
        pytest.param("efficientnet", not_of_batch_norm, id="efficientnet: no norm layers"),
        pytest.param("vit", lambda *_: True, id="vit: all"),
    ],
)
def test_weight_decay(case: str, decays: Callable[[str, nn.Parameter], bool]) -> None:
    config: Any = compose([f"model={case}", "size=full", "data_dir=/data"]).config
    with torch.device("meta"):
        network = component(config, "network")
    task = component(config, "task")
    decayed = {id(parameter) for parameter in task.parameters(network)[0]["params"]}
    assert decayed == {id(parameter) for name, parameter in network.named_parameters() if decays(name, parameter)}
    assert [group.get("weight_decay") for group in task.parameters(network)] in ([None], [None, 0.0])
