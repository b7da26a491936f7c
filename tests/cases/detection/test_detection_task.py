"""Detection: one step as computed with torchvision directly, the metric as pycocotools has it, the backbone's file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradients import gradient_norm
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import Tensor, distributed, nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import detection, resnet18, resnet50
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.retinanet import RetinaNetHead
from torchvision.models.resnet import BasicBlock, ResNet
from toy import fork_ranks

from cases.detection.task import Detection, average_precision
from cases.optimization import warmup_multistep_of_epochs
from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.errors import ConfigError
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.build import load_weights
from flagperf.trainer.pytorch.ranks import World

Config = dict[str, Any]
CPU = torch.device("cpu")
CASES = ["faster_rcnn", "mask_rcnn", "retinanet"]


def backbone(levels: Mapping[str, int]) -> nn.Module:
    body = ResNet(BasicBlock, [1, 1, 1, 1])
    names = {level: str(number) for number, level in enumerate(levels)}
    return BackboneWithFPN(body, names, list(levels.values()), 64)


def two_stages(kind: type[nn.Module], **heads: Any) -> nn.Module:
    levels = {"layer1": 64, "layer2": 128, "layer3": 256, "layer4": 512}
    sizes, ratios = ((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5
    return kind(
        backbone(levels),
        min_size=72,
        max_size=96,
        rpn_anchor_generator=AnchorGenerator(sizes, ratios),
        rpn_pre_nms_top_n_train=200,
        rpn_post_nms_top_n_train=200,
        rpn_pre_nms_top_n_test=100,
        rpn_post_nms_top_n_test=50,
        box_batch_size_per_image=32,
        box_head=TwoMLPHead(64 * 7 * 7, 128),
        box_predictor=FastRCNNPredictor(128, 4),
        **heads,
    )


def faster_rcnn() -> nn.Module:
    return two_stages(detection.FasterRCNN)


def mask_rcnn() -> nn.Module:
    heads = {
        "mask_head": MaskRCNNHeads(64, [64], 1),
        "mask_predictor": MaskRCNNPredictor(64, 64, 4),
        "box_detections_per_img": 10,
    }
    return two_stages(detection.MaskRCNN, **heads)


def retinanet() -> nn.Module:
    levels = {"layer2": 128, "layer3": 256, "layer4": 512}
    sizes, ratios = ((14, 20), (28, 40), (56, 80), (112, 160)), ((1.0,),) * 4
    head = RetinaNetHead(64, 2, 4, nn.InstanceNorm2d)
    anchors = AnchorGenerator(sizes, ratios)
    return detection.RetinaNet(backbone(levels), 4, min_size=72, max_size=96, anchor_generator=anchors, head=head)


@pytest.mark.parametrize("original", [faster_rcnn, mask_rcnn, retinanet], ids=CASES)
def test_one_step_equals_torchvision(tiny: Callable[[str], Config], original: Callable[[], nn.Module]) -> None:
    """Loss and norm of the gradients, in double precision because norms over few numbers magnify rounding."""
    config = tiny(original.__name__)
    network, task, data = (component(config, key) for key in ("network", "task", "train_data"))
    direct = original()
    assert {name: weight.shape for name, weight in network.state_dict().items()} == {
        name: weight.shape for name, weight in direct.state_dict().items()
    }
    direct.load_state_dict(network.state_dict())
    samples = [data[index] for index in (0, 1, 2, 8)]
    images, targets = task.to_device(data.collate_fn(samples), CPU, torch.contiguous_format)
    assert all(torch.equal(image, pixels / 255) for image, (pixels, _) in zip(images, samples, strict=True))
    doubled = [{key: in_double(value) for key, value in target.items()} for target in targets]
    inputs = [image.double() for image in images]
    network, direct = network.double(), direct.double()

    torch.manual_seed(2)
    loss = task.loss(network, (inputs, doubled))
    loss.backward()
    torch.manual_seed(2)
    expected = sum(direct(inputs, doubled).values())
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
    assert gradient_norm(network) == pytest.approx(gradient_norm(direct), rel=1e-6)
    assert (task.samples((images, targets)), task.units((images, targets))) == (4, 4)


def in_double(value: Tensor) -> Tensor:
    return value.double() if value.is_floating_point() else value


# ---------------------------------------------------------------- the metric


class Guessing(nn.Module):
    """Finds about what there is: the objects of the image, moved, mislabelled, missed and made up."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.truth = COCO(path)

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        return [self.guess(int(image[0, 0, 0]), image.shape[1:]) for image in images]

    def guess(self, number: int, size: torch.Size) -> dict[str, Tensor]:
        random = np.random.default_rng(number)
        masks, labels = [np.zeros(size, dtype=np.uint8)], [3]  # one that nobody drew
        for annotation in self.truth.imgToAnns[number]:
            if random.random() < 0.8:
                mask = self.truth.annToMask(annotation)
                masks.append(np.roll(mask, random.integers(-4, 5, 2), axis=(0, 1)))
                labels.append(annotation["category_id"] if random.random() < 0.9 else 1)
        masks[0][5:40, 5:30] = 1
        boxes = []
        for mask in masks:
            rows, columns = np.nonzero(mask)
            boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        return {
            "boxes": torch.tensor(boxes, dtype=torch.float32) + 0.25,
            "scores": torch.from_numpy(random.random(len(labels))).float(),
            "labels": torch.tensor(labels),
            "masks": torch.from_numpy(np.stack(masks)).float()[:, None] * 0.9,
        }


def share_of_metrics(guesses: dict[int, dict[str, Tensor]], path: str, samples: int, _: Path) -> dict[str, float]:
    """What one of two ranks says, which has seen its share of the images."""
    distributed.init_process_group("gloo")
    task = Detection(path, ["bbox", "segm"])

    def found(images: list[int]) -> list[dict[str, Tensor]]:
        return [guesses[number] for number in images]

    batches = [
        ([index + 1 for index in indices], [{"image_id": index + 1} for index in indices])
        for _, indices in eval_batches(samples, 4, World.of())
    ]
    return task.evaluate(found, batches, CPU)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")  # pycocotools, of itself
@pytest.mark.parametrize("samples", [60, 31, 1], ids=["even", "uneven", "none on one rank"])
def test_two_ranks_equal_pycocotools(data_dir: Callable[[str], Path], tmp_path: Path, samples: int) -> None:
    path = str(data_dir("mask_rcnn") / "annotations" / "instances_val2017.json")
    guessing = Guessing(path)
    shapes = {number: (image["height"], image["width"]) for number, image in guessing.truth.imgs.items()}
    guesses = {number: guessing.guess(number, torch.Size(shapes[number])) for number in range(1, samples + 1)}
    found = fork_ranks(partial(share_of_metrics, guesses, path, samples), tmp_path)
    expected = {f"map_{kind}": in_pycocotools(guessing.truth, guesses, kind) for kind in ("bbox", "segm")}
    assert found[0] == found[1] == pytest.approx(expected, abs=1e-6)
    assert samples == 1 or all(0 < value < 1 for value in expected.values())


def in_pycocotools(truth: COCO, guesses: dict[int, dict[str, Tensor]], kind: str) -> float:
    """COCO's first figure, from the results in their own format."""
    from pycocotools import mask

    results = []
    for number, guess in guesses.items():
        for box, score, label, pixels in zip(
            *(guess[key] for key in ("boxes", "scores", "labels", "masks")), strict=True
        ):
            left, top, right, bottom = box.tolist()
            place = (
                {"bbox": [left, top, right - left, bottom - top]}
                if kind == "bbox"
                else {"segmentation": mask.encode(np.asfortranarray(pixels[0].numpy() > 0.5))}
            )
            results.append({"image_id": number, "category_id": int(label), "score": float(score), **place})
    evaluation = COCOeval(truth, truth.loadRes(results), kind)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0])


@pytest.mark.parametrize(
    "number", [pytest.param({"id": 0}, id="0"), pytest.param({}, id="none"), pytest.param({"id": "x"}, id="text")]
)
def test_numbers_of_annotations_do_not_count(tmp_path: Path, number: dict[str, Any]) -> None:
    """COCO's metric takes an object of number 0 for one that nobody finds."""
    found = {"image_id": 1, "category_id": 1, "bbox": [2, 2, 10, 10]}
    images = [{"id": 1, "file_name": "a.jpg", "width": 20, "height": 20}]
    content = {"images": images, "categories": [{"id": 1}], "annotations": [{**found, **number, "area": 100}]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    assert average_precision(str(path), [{**found, "score": 0.9}], "bbox") == 1.0


def test_nothing_found(data_dir: Callable[[str], Path]) -> None:
    path = data_dir("mask_rcnn") / "annotations" / "instances_val2017.json"
    nothing = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.long)}
    nothing["masks"] = torch.zeros(0, 1, 96, 128)
    batch = ([torch.zeros(3, 96, 128)], [{"image_id": 1}])
    task = Detection(str(path), ["bbox", "segm"])
    assert task.evaluate(lambda _: [nothing], [batch], CPU) == {"map_bbox": 0.0, "map_segm": 0.0}  # type: ignore[arg-type]


# ---------------------------------------------------------------- the full size


@pytest.mark.parametrize(
    ("case", "parameters", "gflop"),
    [("faster_rcnn", 41_755_286, 341), ("mask_rcnn", 44_401_393, 343), ("retinanet", 34_014_999, 412)],
)
def test_full_size(case: str, parameters: int, gflop: float) -> None:
    """Parameters, and operations of one image of 800 x 1088 pixels, are those of torchvision's models."""
    with torch.device("meta"):  # shapes only
        network, task = full(case)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            forward(network, torch.rand(1, 3, 800, 1088))
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
    assert counter.get_total_flops() / 1e9 == pytest.approx(gflop, rel=0.01)
    frozen = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    assert {name.split(".")[2] for name in frozen} == {"conv1", "layer1"}
    assert len(task.parameters(network)) == len(list(network.parameters())) - len(frozen)
    assert not [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]


def forward(network: nn.Module, image: Tensor) -> None:
    """What a detector computes in training, but for the choice of proposals, which needs numbers: 512 and 2 masks."""
    levels = list(network.backbone(image).values())
    if isinstance(network, detection.RetinaNet):
        network.head(levels)
        return
    network.rpn.head(levels)
    network.roi_heads.box_predictor(network.roi_heads.box_head(torch.rand(512, 256, 7, 7)))
    if isinstance(network, detection.MaskRCNN):
        network.roi_heads.mask_predictor(network.roi_heads.mask_head(torch.rand(2, 256, 14, 14)))


def full(case: str) -> tuple[nn.Module, Detection]:
    config = compose([f"model={case}", "size=full", "data_dir=/data"]).config
    return component(config, "network"), component(config, "task")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case == "faster_rcnn" else pytest.mark.slow) for case in CASES]
)
def test_published_backbone_is_loaded(case: str, tmp_path: Path) -> None:
    network, task = full(case)
    published = resnet50()  # with a classifier, and with the counters of its batch norm
    nn.init.uniform_(published.bn1.running_mean)
    path = tmp_path / "resnet50-0676ba61.pth"
    torch.save(published.state_dict(), path)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    load_weights(task.pretrained(network), task, str(path))
    after, prefix = network.state_dict(), "backbone.body."
    for name, weight in after.items():
        wanted = published.state_dict()[name.removeprefix(prefix)] if name.startswith(prefix) else before[name]
        assert torch.equal(weight, wanted), name


def test_another_backbone_is_refused(tmp_path: Path) -> None:
    network, task = full("faster_rcnn")
    path = tmp_path / "resnet18.pth"
    torch.save(resnet18().state_dict(), path)
    with pytest.raises(ConfigError) as caught:
        load_weights(task.pretrained(network), task, str(path))
    problem, where, key, given, _ = str(caught.value).splitlines()
    assert (problem, where) == ("the weights do not fit the network", f"  where:   {path}")
    assert (key, given.split(";")[0]) == ("  key:     init_checkpoint", "  given:   missing: layer1.0.conv3.weight")


# ---------------------------------------------------------------- the schedule


def test_schedule_is_that_of_the_recipe() -> None:
    """Five epochs of ten steps: a warm-up of four steps, then a tenth after two epochs, and after four."""
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=2.0)
    schedule = warmup_multistep_of_epochs(optimizer, [2, 4], 0.1, 4, 0.001, epoch_samples=83, step_samples=[2, 2, 1, 2])
    rates = []
    for _ in range(50):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    warmup = [2 * (0.001 + 0.999 * step / 4) for step in range(4)]
    assert rates == pytest.approx(warmup + [2.0] * 16 + [0.2] * 20 + [0.02] * 10)


def test_warmup_ends_with_the_first_epoch() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = warmup_multistep_of_epochs(optimizer, [16], 0.1, 1000, 0.001, epoch_samples=50, step_samples=[5])
    for _ in range(9):
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1.0)
