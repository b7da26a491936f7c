"""Older stacks that ranks run on: each case trains there as it does on the newest.

One case of each kind on the oldest PyTorch and Python (`make oldest`), the others on a PyTorch in the middle
(`make middle`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toy import losses, read_log

from flagperf.config.files.search_path import CONF

# Networks that transformers 4 makes of other modules, which a closed run refuses; and that are divided over the ranks.
NEWER = ("llama3_1b", "llama3_8b")
CASES = sorted(path.stem for path in (CONF / "model").glob("*.yaml") if path.stem not in NEWER)
OLDEST = (
    "bert",
    "efficientnet",
    "glm",
    "mask_rcnn",
    "resnet50",
    "swin_transformer",
    "tacotron2",
    "transformer",
    "wav2vec2",
)
BOTH = ("bert",)  # each version's schedulers wrap the step of its optimizer in another way
TO_TARGET = {"oldest": ("resnet50",), "middle": ("bert",)}
STEPS = 10
# Case → in how many steps losses agree, and within which share; others: in all STEPS, within 1e-3 (docs/frameworks.md).
ALIKE = {
    **dict.fromkeys(("bigtransfer", "resnet50"), (1, 0.005)),  # pictures are made smaller with another rounding
    **dict.fromkeys(("efficientnet", "mobilenetv2", "swin_transformer"), (1, 0.05)),  # and other dropout
    "vit": (STEPS, 0.005),
    **dict.fromkeys(("faster_rcnn", "mask_rcnn", "retinanet"), (3, 0.001)),  # rounding decides on proposals
    **dict.fromkeys(("tacotron2", "wav2vec2"), (STEPS, 0.2)),  # other dropout, other noise
    "bert": (STEPS, 0.2),  # transformers 4 draws the weights in another order
}


def trainings() -> Iterator[Any]:
    """Stack and case of each training."""
    for case in CASES:
        for stack in ("oldest", "middle"):
            if case in BOTH or (case in OLDEST) == (stack == "oldest"):
                yield pytest.param(
                    stack, case, id=f"{stack} {case}", marks=[getattr(pytest.mark, stack), pytest.mark.torch]
                )


def python_of(stack: str) -> Path:
    """The interpreter of an older stack; these tests do not pass without."""
    path = Path(f"{sys.prefix}-{stack}/bin/python")
    assert path.exists(), f"no environment with the {stack} PyTorch; do: make {stack}"
    return path


def flagperf(folder: Path, stack: str, *words: str) -> tuple[dict[str, Any], list[float]]:
    """The result of a training by two ranks on an older stack, and its losses."""
    command = [sys.executable, "-c", "from flagperf.cli.main import main; main()", f"runtime.python={python_of(stack)}"]
    command += ["nproc=2", "log_freq=1", f"result_dir={folder}", "run_name=run", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = folder.glob("run/*/round1/result.json")
    (log,) = result.parent.glob("*/rank0.out.log")
    return json.loads(result.read_text()), losses(read_log(log))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("stack", "case"), list(trainings()))
def test_it_trains_as_on_the_newest(
    tiny: Callable[[str], dict[str, Any]], recorded: Callable[[str], Path], tmp_path: Path, stack: str, case: str
) -> None:
    """By runtime.python, with the losses of the newest in the first steps; some cases to their targets."""
    config = tiny(case)
    limit = [] if case in TO_TARGET[stack] else [f"max_steps={STEPS}"]
    sample = f"sample_dir={Path(config['data_dir']).parent}"
    result, found = flagperf(tmp_path / stack, stack, f"model={case}", sample, *limit)
    assert (result["verdict"], result["reasons"]) == ("VALID", [])
    assert result["target_reached"] is True or limit
    newest = losses(read_log(recorded(case) / "rank0/log0"))
    steps, share = ALIKE.get(case, (STEPS, 0.001))
    assert found[:steps] == pytest.approx(newest[:steps], rel=share)


STEPS_OF = """
import torch
from flagperf.trainer.pytorch.by_version import step_of
class Other(torch.optim.AdamW):
    def step(self, closure=None):
        pass
def shown(kind, replaced=None):
    optimizer = kind([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    if replaced is not None:
        optimizer.step = replaced.__get__(optimizer)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    return step_of(optimizer).__globals__["__name__"].rpartition(".")[0]
print([shown(torch.optim.AdamW), shown(Other), shown(torch.optim.AdamW, Other.step)])
"""


@pytest.mark.parametrize("stack", [pytest.param(stack, marks=getattr(pytest.mark, stack)) for stack in TO_TARGET])
def test_whose_step_it_is_below_what_schedulers_lay_around(stack: str) -> None:
    """torch.optim's own; and another one, that of the class or of the optimizer alone."""
    command = [str(python_of(stack)), "-W", "ignore", "-c", STEPS_OF]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "['torch.optim', '', '']\n"
