"""resnet50 and llama3_8b on PyTorch."""

import os
import time
from typing import Any

from cases.image_classification.task import ImageClassification
from cases.language_model.task import NextToken
from faulty.fault import Fault


class Faulty(Fault, ImageClassification):
    pass


class FaultyText(Fault, NextToken):
    pass


class Slow(ImageClassification):
    """A step waits, and from some step on longer on one rank.

    Args:
        seconds: of the wait.
        share: by which the wait of the slow rank is longer.
        rank: the slow rank.
        after: the last step in which the rank is not slow.
        once: seconds of one more wait of the slow rank, in the step `after`.
    """

    def __init__(self, seconds: float, share: float, rank: int, after: int, once: float = 0.0, **others: Any) -> None:
        super().__init__(**others)
        self.seconds, self.share, self.after, self.once = seconds, share, after, once
        self.slow = rank == int(os.environ["RANK"])
        self.step = 0

    def loss(self, network: Any, batch: Any) -> Any:
        self.step += 1
        longer = self.slow and self.step > self.after
        time.sleep(self.seconds * (1 + self.share) if longer else self.seconds)
        if self.slow and self.step == self.after:
            time.sleep(self.once)
        return super().loss(network, batch)
