"""Image folders: what is read is what lies on disk, and what cannot be used is named."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torchvision.transforms import v2

from cases.image_classification.data import images
from flagperf.config.parts.data_layout import moved
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.data.datasets import check_classes
from flagperf.trainer.pytorch.loading import Loader, on_device

AS_IS = [v2.Identity()]


def test_sample_data_is_read_back(tiny: Callable[[str], dict[str, Any]]) -> None:
    config = tiny("resnet50")
    evaluation, training = component(config, "eval_data"), component(config, "train_data")
    digits = load_digits()
    counts = (
        Counter(digits.target[::5].tolist()),
        Counter(digits.target.tolist()) - Counter(digits.target[::5].tolist()),
    )
    assert (Counter(evaluation.targets), Counter(training.targets)) == counts
    for index in (0, 100, 359):
        image, label = evaluation[index]
        number = int(Path(evaluation.samples[index][0]).stem)
        assert (image.dtype, tuple(image.shape), label) == (torch.uint8, (3, 32, 32), int(digits.target[number]))
        cells = image[0].reshape(8, 4, 8, 4).float().mean(dim=(1, 3))  # back to 8 x 8
        assert np.corrcoef(cells.flatten(), digits.images[number].ravel())[0, 1] > 0.97


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_every_kind_of_jpeg_is_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "class" / "image.JPEG"
    path.parent.mkdir()
    Image.new(mode, (10, 20)).save(path)
    ((image, label),) = images(str(tmp_path), 1, AS_IS)
    assert (tuple(image.shape), label) == ((3, 20, 10), 0)


def test_an_image_of_16_bits_is_as_others(tmp_path: Path) -> None:
    path = tmp_path / "class" / "image.png"
    path.parent.mkdir()
    values = np.arange(6, dtype=np.uint16).reshape(2, 3) * 13107
    Image.fromarray(values).save(path)
    ((image, _),) = images(str(tmp_path), 1, AS_IS)
    assert image.dtype == torch.uint8
    assert image[0].tolist() == (values // 256).tolist()


@pytest.mark.parametrize("case", ["resnet50", "vit"])
@pytest.mark.parametrize(
    ("split", "given"),
    [
        pytest.param("val", "1 missing in the evaluation data: 3", id="not in val"),
        pytest.param("train", "1 missing in the training data: 3", id="not in train"),
    ],
)
def test_splits_have_the_same_classes(
    case: str,
    split: str,
    given: str,
    tiny: Callable[[str], dict[str, Any]],
    data_dir: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """Without the folder of the threes, all digits after them would have other labels."""
    shutil.copytree(data_dir(case), tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / split / "3")
    with pytest.raises(ConfigError) as caught:
        config = moved(tiny(case), str(data_dir(case)), str(tmp_path))
        check_classes(component(config, "train_data"), component(config, "eval_data"))
    assert str(caught.value) == (
        f"training and evaluation data have different classes\n  where:   {tmp_path}/val\n  key:     data_dir\n"
        f"  given:   {given}\n  allowed: the same classes in both splits"
    )


def test_a_corrupt_image_is_named(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    split = tmp_path / "val"
    shutil.copytree(data_dir("resnet50") / "val" / "0", split / "0")
    broken = min(split.glob("0/*"))
    broken.write_bytes(broken.read_bytes()[:100])
    folder = images(str(split), 10, AS_IS)
    batches = Loader(folder, [(0, [1, 2]), (0, [0, 3])], 1, torch.device("cpu"))
    with pytest.raises(ConfigError) as caught:
        list(on_device(batches, lambda batch: batch, torch.device("cpu")))
    problem, where, *_ = str(caught.value).splitlines()
    assert (problem, where) == ("cannot read an image of the data set", f"  where:   {broken}")
    assert "replace it by a good copy" in str(caught.value)


@pytest.mark.parametrize("folders", [[], ["0"]], ids=["no class", "a class without images"])
def test_an_empty_split_is_named(tmp_path: Path, folders: list[str]) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir()
    with pytest.raises(ConfigError) as caught:
        images(str(tmp_path), 10, AS_IS)
    assert str(caught.value).startswith(f"no images in this split of the data set\n  where:   {tmp_path}\n")


def test_more_classes_than_the_network_has(data_dir: Callable[[str], Path]) -> None:
    split = data_dir("resnet50") / "val"
    with pytest.raises(ConfigError) as caught:
        images(str(split), 9, AS_IS)
    assert str(caught.value) == (
        "the data set has more classes than the network\n"
        f"  where:   {split}\n"
        "  key:     num_classes\n"
        "  given:   9\n"
        "  allowed: at least 10, one for each folder of the split"
    )
