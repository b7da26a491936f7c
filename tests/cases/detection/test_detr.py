"""DETR: the network and its loss are those of transformers on the same weights; images without objects; the crop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gradients import gradient_norm
from torch import Tensor, nn
from torchvision import tv_tensors
from torchvision.ops import box_convert
from transformers import DetrForObjectDetection
from transformers.loss.loss_for_object_detection import ForObjectDetectionLoss

from cases.detection.data import CocoObjects, RandomSizeCrop
from cases.detection.network import Detr
from flagperf.config.compose import compose
from flagperf.contract.components import component

Config = dict[str, Any]
Tiny = Callable[[str], Config]
CPU = torch.device("cpu")


def padded(images: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Pixels as the backbone was trained with, and where they are: as DETR's own code makes a batch."""
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    sides = torch.tensor([image.shape[1:] for image in images]).amax(0).tolist()
    pixels, mask = torch.zeros(len(images), 3, *sides), torch.zeros(len(images), *sides)
    for row, inside, image in zip(pixels, mask, images, strict=True):
        _, height, width = image.shape
        row[:, :height, :width] = (image - mean[:, None, None]) / std[:, None, None]
        inside[:height, :width] = 1
    return pixels, mask


@pytest.fixture
def network(tiny: Tiny) -> Detr:
    torch.manual_seed(1)
    built: Detr = component(tiny("detr"), "network")
    return built


@pytest.fixture
def direct(network: Detr) -> DetrForObjectDetection:
    """The class of transformers itself, with the same weights."""
    library = DetrForObjectDetection(network.config)
    library.load_state_dict(network.state_dict())
    return library


def test_loss_and_gradients_are_those_of_transformers(tiny: Tiny, network: Detr, direct: Any) -> None:
    """Each layer's states, through the decoder's norm and the heads, have their own matching and loss."""
    data, task = component(tiny("detr"), "train_data"), component(tiny("detr"), "task")
    batch = task.to_device(data.collate_fn([data[index] for index in (0, 1, 15)]), CPU, torch.contiguous_format)
    images, targets = batch
    sides = [torch.tensor([image.shape[2], image.shape[1]] * 2) for image in images]
    labels = [
        {"class_labels": target["labels"], "boxes": box_convert(target["boxes"], "xyxy", "cxcywh") / side}
        for target, side in zip(targets, sides, strict=True)
    ]
    assert [len(target["labels"]) for target in targets] == [1, 1, 0]
    states: list[Tensor] = []
    for layer in direct.model.decoder.layers:
        layer.register_forward_hook(lambda *call: states.append(call[-1]))
    pixels, mask = padded(images)
    direct.model(pixels, pixel_mask=mask)
    normed = [direct.model.decoder.layernorm(state) for state in states]
    heads = [(direct.class_labels_classifier(state), direct.bbox_predictor(state).sigmoid()) for state in normed]
    expected = sum(ForObjectDetectionLoss(each, labels, CPU, boxes, direct.config)[0] for each, boxes in heads)
    expected.backward()

    loss = task.loss(network.train(), batch)
    loss.backward()
    assert len(states) == 2
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert gradient_norm(network) == pytest.approx(gradient_norm(direct), rel=1e-4)


@torch.no_grad()
def test_objects_are_those_of_transformers(network: Detr, direct: Any) -> None:
    """Boxes in pixels of the image as it came, though the network sees it at another size."""
    images = [torch.rand(3, 96, 128), torch.rand(3, 48, 48)]
    found = network.eval()(images)
    resized, _ = network.transform(images)
    assert resized.image_sizes == [(48, 64), (48, 48)]
    mask = padded([torch.zeros(3, *size) for size in resized.image_sizes])[1]
    outputs = direct.eval()(resized.tensors, pixel_mask=mask)
    scores, labels = outputs.logits.softmax(-1)[..., :-1].max(-1)
    for row, (result, image) in enumerate(zip(found, images, strict=True)):
        sides = torch.tensor([image.shape[2], image.shape[1]] * 2)
        boxes = box_convert(outputs.pred_boxes[row], "cxcywh", "xyxy") * sides
        torch.testing.assert_close(result, {"boxes": boxes, "scores": scores[row], "labels": labels[row]})


def test_a_batch_without_objects_teaches_that_there_is_none(network: Detr) -> None:
    """transformers cannot match then. Heads that are all zero find each of the five classes equally likely."""
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.long)}
    nn.init.zeros_(network.class_labels_classifier.weight)
    nn.init.zeros_(network.class_labels_classifier.bias)
    losses = network.train()([torch.rand(3, 48, 64)], [nothing])
    loss = losses["classes"] + losses["boxes"]
    loss.backward()
    assert loss.item() == pytest.approx(2 * math.log(5))  # two layers
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_published_backbone_and_its_learning_rate() -> None:
    """Names are those of torchvision; only its last three stages are trained, with a rate of their own."""
    from torchvision.models import resnet50

    config = compose(["model=detr", "size=full", "data_dir=/data"]).config
    with torch.device("meta"):
        built, task, published = component(config, "network"), component(config, "task"), resnet50()
    weights = task.initial_weights(published.state_dict())
    backbone = task.pretrained(built)
    shapes = {name: weight.shape for name, weight in backbone.state_dict().items()}
    assert shapes == {name: weight.shape for name, weight in weights.items()}
    others, of_backbone = task.parameters(built)
    frozen = {name.split(".")[0] for name, weight in backbone.named_parameters() if not weight.requires_grad}
    assert frozen == {"conv1", "layer1"}
    assert of_backbone["lr"] == 1e-5
    trained = sum(parameter.numel() for group in (others, of_backbone) for parameter in group["params"])
    assert trained == 41_524_768 - 222_400  # DETR's own code prints 41,302,368


@pytest.mark.parametrize(
    ("length", "sides"), [pytest.param(20, (8, 12), id="a part"), pytest.param(10, (8, 10), id="at most the image")]
)
def test_a_crop_has_what_lies_in_it(length: int, sides: tuple[int, int]) -> None:
    """Each pixel tells where it was, so the boxes can be found again."""
    image = torch.arange(length * length, dtype=torch.float32).reshape(1, length, length).expand(3, -1, -1)
    boxes = torch.tensor([[0.0, 0, length, length], [length - 1, length - 1, length, length], [2, 3, 5, 6]])
    canvas: Any = {"format": "XYXY", "canvas_size": (length, length)}
    target = {"boxes": tv_tensors.BoundingBoxes(boxes, **canvas), "labels": torch.tensor([1, 2, 3])}
    torch.manual_seed(0)
    kept = set()
    for _ in range(50):
        part, found = RandomSizeCrop(8, 12)(tv_tensors.Image(image), target)
        _, height, width = part.shape
        assert all(sides[0] <= side <= sides[1] for side in (height, width))
        top, left = divmod(int(part[0, 0, 0]), length)
        corner = torch.tensor([left, top, left, top])
        end = torch.tensor([width, height] * 2)
        moved = {n + 1: (box - corner).clamp(min=0).minimum(end) for n, box in enumerate(boxes)}
        inside = {n: box for n, box in moved.items() if (box[2:] > box[:2]).all()}
        assert found["labels"].tolist() == list(inside)
        assert torch.equal(torch.stack(list(inside.values())), found["boxes"].as_subclass(Tensor))
        kept.add(len(inside))
    assert len(kept) > 1


def test_images_without_objects_belong_to_the_data(tiny: Tiny) -> None:
    """In batches of any shape."""
    data: CocoObjects = component(tiny("detr"), "train_data")
    empty = [record for record in data.records if not record["boxes"]]
    assert (len(data), len(empty) > 0, set(data.groups)) == (400, True, {0})
    assert len(data.batches(8, torch.Generator().manual_seed(0))) == 50
