"""Run by test_metrics.py on each of two ranks: metrics of made-up predictions; a rank has a share of them, or all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cases.detection.task import on_first_rank
from cases.glm.task import MultipleChoice
from cases.image_classification.task import ImageClassification
from cases.language_model.task import NextToken
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task

SAMPLES, CHOICES = 11, 7


class Given(nn.Module):
    """A network that answers what its first input holds."""

    def forward(self, predictions: Tensor, *_: Tensor) -> Tensor:
        return predictions


def predictions(number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of the classes or choices of one sample, its label, and its right choices."""
    generator = torch.Generator().manual_seed(number)
    scores = torch.randn(CHOICES, generator=generator)
    answers = torch.rand(CHOICES, generator=generator) < 0.3
    return scores, torch.randint(CHOICES, (), generator=generator), answers


def batch_of(task: Task, numbers: list[int]) -> object:
    scores, labels, answers = (torch.stack(parts) for parts in zip(*map(predictions, numbers), strict=True))
    if isinstance(task, ImageClassification):
        return scores, labels
    if isinstance(task, NextToken):
        return scores
    choices = torch.ones_like(answers)
    return dict.fromkeys(("text", "position", "context", "target", "target_mask"), scores) | {
        "answers": answers,
        "is_choice": choices,
    }


def evaluated(_: Path) -> dict[str, Any]:
    """The metrics of this rank: of its share, and of all samples."""
    dist.init_process_group("gloo")
    world = World.of()
    alone, _ = dist.new_subgroups_by_enumeration([[0], [1]])
    found: dict[str, Any] = {}
    together: dict[str, Any] = {}
    for name, task in (
        ("images", ImageClassification(CHOICES, pixel_mean=[0, 0, 0], pixel_std=[1, 1, 1])),
        ("glm", MultipleChoice(eval_choices=3)),
        ("tokens", NextToken()),
    ):
        share = eval_batches(SAMPLES, 2, world)
        batches = [batch_of(task, numbers) for _, numbers in share]
        found[name] = task.evaluate(Given(), batches, torch.device("cpu"))
        task.group = alone
        all_of_them = [batch_of(task, list(range(SAMPLES)))]
        together[name] = task.evaluate(Given(), all_of_them, torch.device("cpu"))
    image = [{"image_id": world.rank}]
    shared, own = (on_first_rank(image, lambda rows: {"images": len(rows)}, group) for group in (None, alone))
    found["detections"], together["detections"] = shared, own
    dist.destroy_process_group()
    return {"rank": world.rank, "metrics": found, "together": together}
