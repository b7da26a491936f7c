"""Writes sample data in the real format, the same bytes each time."""

import csv
import math
import random
from pathlib import Path


def write(folder: str, points: int) -> None:
    """Write `points` points to train.csv, and a quarter of this number to eval.csv."""
    numbers = random.Random(0)
    for name, count in (("train.csv", points), ("eval.csv", points // 4)):
        with Path(folder, name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(_point(numbers, index % 2) for index in range(count))


def _point(numbers: random.Random, label: int) -> tuple[str, str, int]:
    radius = numbers.uniform(0.1, 1.0)
    angle = 4 * radius + math.pi * label
    return f"{radius * math.cos(angle):.4f}", f"{radius * math.sin(angle):.4f}", label
