"""A user's configuration folder for the tests of composition: its own case, tuning, experiment and cluster."""

from __future__ import annotations

from pathlib import Path

TOY = """\
# @package _global_
# flagperf model=toy
case: toy
title: a case of the user's own
unit: numbers
throughput_unit: numbers/s
train_batch_size: 4
eval_batch_size: 4
lr: 0.1
depth: 2
max_steps: 5
network: {_target_: cases.toy.Network, depth: "${depth}"}
optimizer: {_target_: torch.optim.SGD, lr: "${lr}"}
task: {_target_: cases.toy.Task}
numbers: numbers.txt
train_data: {_target_: cases.toy.read, path: "${data_dir}/${numbers}"}
eval_data: {_target_: cases.toy.read, path: "${data_dir}/${numbers}"}
data:
  name: the numbers
  tree: |
    <data_dir>/
    └── numbers.txt
  require: {"${numbers}": 1}
"""
SAMPLE = "  sample: {_target_: cases.toy.write, count: 10}\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files below a folder; returns the folder."""
    for name, text in files.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
