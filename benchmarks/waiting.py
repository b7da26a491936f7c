"""A case whose step takes as long as it is told to, as on a device that other work of the machine does not disturb."""

from __future__ import annotations

import time

import mlp
from torch import Tensor, nn


class Network(nn.Module):
    """mlp.network, with a stand-in for an accelerator: its queue takes `seconds` a step, beside what the host does.

    The host waits for the step before, as one does that runs ahead of its device by one step.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layers, self.seconds = mlp.network(), seconds
        self.due = 0.0  # when the device has done all that it was given

    def forward(self, inputs: Tensor) -> Tensor:
        self.wait()
        self.due = max(self.due, time.perf_counter()) + self.seconds
        outputs: Tensor = self.layers(inputs)
        return outputs

    def wait(self) -> None:
        time.sleep(max(0.0, self.due - time.perf_counter()))


CASE = """\
# @package _global_
# PYTHONPATH=benchmarks flagperf --config-dir FOLDER model=waiting data_dir=FOLDER
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
