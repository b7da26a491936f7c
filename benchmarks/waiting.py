"""A case whose step takes as long as it is told to, as on a device that other work of the machine does not disturb."""

from __future__ import annotations

import time

import mlp
from torch import Tensor, nn


class Network(nn.Module):
    """mlp.network, whose forward pass waits until its seconds are over."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layers, self.seconds = mlp.network(), seconds

    def forward(self, inputs: Tensor) -> Tensor:
        due = time.perf_counter() + self.seconds
        outputs: Tensor = self.layers(inputs)
        time.sleep(max(0.0, due - time.perf_counter()))
        return outputs


CASE = """\
# @package _global_
# flagperf --config-dir FOLDER model=waiting code_dir=benchmarks data_dir=FOLDER
case: waiting
title: a step that takes a told time
unit: points
throughput_unit: points/s
train_batch_size: {batch_size}
eval_batch_size: {batch_size}
lr: 0.01
max_steps: {steps}
log_freq: 10
num_workers: 0
eval_interval_epochs: null
network: {{_target_: waiting.Network, seconds: {seconds}}}
optimizer: {{_target_: torch.optim.SGD, lr: "${{lr}}"}}
task: {{_target_: mlp.Classification}}
train_data: {{_target_: mlp.Points}}
eval_data: {{_target_: mlp.Points}}
"""  # model/waiting.yaml of a user's folder
