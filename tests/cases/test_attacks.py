"""A vendor's plug-in that makes another network, optimizer or schedule of a case is found; an honest vendor is VALID.

Each is trained for real by one rank, from a folder of the vendor's own, and judged from its log. The ranks are forked
from this process, which has imported torch already.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from as_rank import as_rank
from toy import fork_ranks, losses, read_log

from flagperf.config.compose import compose
from flagperf.contract.records import Result
from flagperf.results.result import Ending, result_of_logs
from flagperf.trainer.pytorch.device import device_name

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
HARDWARE = """\
# flagperf --config-dir . vendor=evil hardware=E1 size=tiny
title: E1
vendor: evil
device_names: {names}
memory_gib: null
power_w: null
peak_flops: {{fp32: 1.0e+15}}
"""

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
GROUPS = """\
from cases.image_classification.task import ImageClassification
ImageClassification.parameters = lambda self, network: [{"params": list(network.parameters()), "weight_decay": 0.0}]
"""
STEP_LR = """\
from torch.optim.lr_scheduler import StepLR
rates = StepLR.get_lr
StepLR.get_lr = lambda self: [2 * rate for rate in rates(self)]
"""
COSINE_AND_STEP = """\
import torch
import cases.optimization as recipes
from torch.optim.lr_scheduler import LambdaLR
recipes.warmup_cosine = lambda optimizer, **_: LambdaLR(optimizer, lambda interval: 1.0)
def step(self, closure=None):
    pass
torch.optim.AdamW.step = step
"""
OTHER = "another network than the case's: "
ATTACKS: dict[str, tuple[str, str, list[str]]] = {
    "narrow blocks": (
        "resnet50",
        NARROW,
        [
            OTHER + "*,* parameters, the case has 4,641,994",
            "parameter group 1 of 53 tensors and *,* parameters, the case has 53 and 4,641,994",
            OTHER + "* operations of the example *, the case has 3.5e+07",
        ],
    ),
    "larger stride": (
        "resnet50",
        STRIDE,
        [OTHER + "* operations of the example in a forward pass, the case has 3.5e+07"],
    ),
    "another optimizer, without weight decay, at twice the rate": (
        "resnet50",
        OPTIMIZER + GROUPS + STEP_LR,
        [
            "optimizer evil.Faster, the case has torch.optim.sgd.SGD",
            "weight_decay of parameter group 1 is 0.0, the configuration says 0.0001",
            "learning rate 0.02 in step 1, the case's own schedule gives 0.01",
            "learning rate 0.02 in step 3, the case's own schedule gives 0.01",
            "rank 0 trained with learning rate 0.02 in step 1, the case's own schedule gives 0.01",
            "rank 0 trained with learning rate 0.02 in step 3, the case's own schedule gives 0.01",
        ],
    ),
    "another schedule, and an optimizer that does nothing": (
        "vit",
        COSINE_AND_STEP,
        [
            "optimizer torch.optim.adamw.AdamW with another step, from evil",
            "learning rate 0.001 in step 1, the case's own schedule gives 3.3e-05",
            "learning rate 0.001 in step 3, the case's own schedule gives 3.3e-05",
            "rank 0 trained with learning rate 0.001 in step 1, the case's own schedule gives 3.3e-05",
            "rank 0 trained with learning rate 0.001 in step 3, the case's own schedule gives 3.3e-05",
        ],
    ),
}
HONEST: dict[str, tuple[str, str, list[str]]] = {
    "fused, channels last, bf16, recomputing": (
        "resnet50",
        "",
        [
            "+optimizer.fused=true",
            "memory_format=channels_last",
            "precision=amp_bf16",
            "activation_checkpointing=true",
            "checkpoint_modules=torchvision.models.resnet.Bottleneck",
        ],
    ),
    "other hyper-parameters, and a plug-in that changes nothing": (
        "vit",
        "import torch",
        ["lr=0.002", "weight_decay=0.1", "lr_warmup_epochs=2", "+optimizer.foreach=true"],
    ),
}


@pytest.mark.parametrize(("case", "plugin", "reasons"), ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_is_invalid(tiny: Tiny, tmp_path: Path, case: str, plugin: str, reasons: list[str]) -> None:
    result = trained(tiny, tmp_path, case, plugin)
    pairs = list(itertools.zip_longest(result.reasons, reasons, fillvalue=""))
    assert result.verdict == "INVALID"
    assert [found for found, wanted in pairs if not fnmatchcase(found, wanted)] == []
    (module,) = (entry for entry in result.built["software"]["modules"].values() if entry["module"] == "evil")
    assert module["sha256"] == hashlib.sha256(plugin.encode()).hexdigest()


@pytest.mark.parametrize(("case", "plugin", "overrides"), HONEST.values(), ids=HONEST.keys())
def test_an_honest_vendor_is_valid(tiny: Tiny, tmp_path: Path, case: str, plugin: str, overrides: list[str]) -> None:
    result = trained(tiny, tmp_path, case, plugin, *overrides)
    assert (result.verdict, result.reasons, result.identity.division) == ("VALID", (), "closed")
    assert [note for note in result.notes if not note.startswith("code of no installed package")] == []  # the tests


def test_another_device_is_invalid_and_has_no_peak(tiny: Tiny, tmp_path: Path) -> None:
    result = trained(tiny, tmp_path, "vit", "", names="[Acme A1]")
    found = device_name(torch.device("cpu"))
    assert (result.verdict, result.reasons) == ("INVALID", (f"hardware=E1, found {found}",))
    note = f"the device is {found}, and not hardware E1, whose peaks are known"
    assert (result.values["mfu"], result.values["mfu_note"]) == (None, note)


@pytest.mark.slow
def test_a_compiled_network_is_the_same(tiny: Tiny, tmp_path: Path) -> None:
    """It is VALID, and torch.compile changes the losses of a real case by rounding only."""
    found = {}
    for compiled in ("false", "true"):
        folder = tmp_path / compiled
        result = trained(tiny, folder, "vit", "", f"compile={compiled}", "log_freq=1")
        assert (result.verdict, result.reasons) == ("VALID", ())
        found[compiled] = losses(read_log(folder / "round1/here_noderank0/rank0.out.log"))
    assert found["true"] == pytest.approx(found["false"], rel=1e-4)


def trained(tiny: Tiny, folder: Path, case: str, plugin: str, *overrides: str, names: str = "[]") -> Result:
    """What became of three steps of a case with the vendor's plug-in of this source; "": it has none."""
    files = {
        "vendor/evil.yaml": VENDOR.format(plugin="evil" if plugin else "null"),
        "hardware/E1.yaml": HARDWARE.format(names=names),
        "code/evil.py": plugin,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    sample = f"sample_dir={tiny(case)['sample_dir']}"
    words = (f"model={case}", "vendor=evil", "hardware=E1", "size=tiny", "max_steps=3", "num_workers=0", sample)
    job = compose([*words, *overrides], [folder])
    round_folder = folder / "round1"
    fork_ranks(partial(as_rank, job.config, code=folder / "code"), round_folder, ranks=1)
    return result_of_logs(job.config, job.changes, 1, round_folder, ending=Ending("finished"))
