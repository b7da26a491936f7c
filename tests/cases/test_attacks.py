"""A vendor's plug-in that makes another network, optimizer or schedule of a case is found; an honest vendor is VALID.

Each is trained for real by one rank, from a folder of the vendor's own, and judged from its log. The ranks are forked
from this process, which has imported torch already.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import toy

from flagperf.config.compose import compose
from flagperf.perflog import PerfLog
from flagperf.results.result import result_of_logs
from flagperf.results.values import Result

Tiny = Callable[[str], dict[str, Any]]

VENDOR = """\
# @package _global_
# flagperf --config-dir . vendor=evil hardware=E1 size=tiny
vendor:
  title: a vendor
  device: cpu
  backend: gloo
  plugin: {plugin}
  visible_devices: null
"""
HARDWARE = "# flagperf hardware=E1\ntitle: E1\nvendor: evil\nmemory_gib: null\npower_w: null\npeak_flops: {}\n"

NARROW = """\
from torchvision.models.resnet import Bottleneck
made = Bottleneck.__init__
def narrow(self, inplanes, planes, stride, downsample, groups, base_width, *rest):
    made(self, inplanes, planes, stride, downsample, groups, base_width // 2, *rest)
Bottleneck.__init__ = narrow
"""
STRIDE = """\
from torchvision.models.resnet import ResNet
made = ResNet.__init__
def coarse(self, *arguments, **named):
    made(self, *arguments, **named)
    self.conv1.stride = (4, 4)
ResNet.__init__ = coarse
"""
OPTIMIZER = """\
import torch
class Faster(torch.optim.SGD):
    pass
torch.optim.SGD = Faster
"""
STEP = """\
import torch
def step(self, closure=None):
    pass
torch.optim.SGD.step = step
"""
GROUPS = """\
from cases.image_classification.task import ImageClassification
ImageClassification.parameters = lambda self, network: [{"params": list(network.parameters()), "weight_decay": 0.0}]
"""
STEP_LR = """\
from torch.optim.lr_scheduler import StepLR
rates = StepLR.get_lr
StepLR.get_lr = lambda self: [2 * rate for rate in rates(self)]
"""
COSINE = """\
import cases.optimization as recipes
from torch.optim.lr_scheduler import LambdaLR
recipes.warmup_cosine = lambda optimizer, **_: LambdaLR(optimizer, lambda interval: 1.0)
"""
NETWORK, OPERATIONS = "another network than the case's: ", "operations of the example in a forward pass, the case has"
SGD = "torch.optim.sgd.SGD"

ATTACKS = {
    "narrow blocks": ("resnet50", NARROW, [NETWORK + "3,171,914 parameters, the case has 4,641,994", "*"]),
    "larger stride": ("resnet50", STRIDE, [NETWORK + f"* {OPERATIONS} 3.5e+07"]),
    "another optimizer": ("resnet50", OPTIMIZER, [f"optimizer evil.Faster, the case has {SGD}"]),
    "another step": ("resnet50", STEP, [f"optimizer {SGD} whose step is another one, from evil"]),
}


def train(config: Mapping[str, Any], folder: Path, code: Path) -> None:
    """One rank of `python -m flagperf.trainer`, in this process."""
    from flagperf.trainer.imports import import_components
    from flagperf.trainer.pytorch.entry import train

    sys.path.insert(0, str(code))
    log = folder.parent / "here_noderank0" / "rank0.out.log"
    log.parent.mkdir()
    perflog = PerfLog(0, os.open(log, os.O_WRONLY | os.O_CREAT))
    perflog.log("SUBMIT_INFO", {"config": config})
    import_components(config)
    train(config, perflog, time.perf_counter())


def trained(tiny: Tiny, folder: Path, case: str, plugin: str, *overrides: str) -> Result:
    """What became of three steps of a case with the vendor's plug-in of this source; "": it has none."""
    files = {
        "vendor/evil.yaml": VENDOR.format(plugin="evil" if plugin else "null"),
        "hardware/E1.yaml": HARDWARE,
        "code/evil.py": plugin,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    sample = f"sample_dir={tiny(case)['sample_dir']}"
    words = (f"model={case}", "vendor=evil", "hardware=E1", "size=tiny", "max_steps=3", "num_workers=0", sample)
    run = compose([*words, *overrides], [folder])
    round_folder = folder / "round1"
    toy.fork_ranks(partial(train, run.config, code=folder / "code"), round_folder, ranks=1)
    return result_of_logs(run.config, run.changes, 1, round_folder, status="finished")
