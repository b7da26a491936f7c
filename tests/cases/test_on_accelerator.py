"""Cases of each kind on an accelerator: this machine's, or the chip made of Python (tests/trainer/accelerator.py)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import accelerator
import pytest
import toy
from flagperf_command import FLAGPERF

from flagperf.contract.perflog import Event

Tiny = Callable[[str], dict[str, Any]]

BATCH_SIZES = {"resnet50": 32, "bert": 8, "glm": 8, "faster_rcnn": 2}
CASES = (("glm",), ("resnet50", "bert", "faster_rcnn"))
STEPS = {
    "max_steps": 5,
    "log_freq": 1,
    "initial_evaluation": False,
    "eval_interval_steps": 5,
    "eval_start_samples": 0,
}
ROUNDING = {"faster_rcnn": 0.1}  # rounding also decides which proposals it learns from


@pytest.mark.slow
@pytest.mark.parametrize("cases", CASES, ids=" ".join)
def test_trains_as_on_a_cpu(tiny: Tiny, tmp_path: Path, cases: tuple[str, ...]) -> None:
    """On the CPU and on the accelerator, in two processes side by side.

    The chip made of Python gives exactly the CPU's losses and metrics; others round otherwise.
    """
    cpu = {case: tiny(case) | STEPS | {"train_batch_size": BATCH_SIZES[case]} for case in cases}
    runs = {"cpu": cpu, "accelerator": {case: accelerator.on_device(config) for case, config in cpu.items()}}
    trained = accelerator.train_side_by_side(runs, tmp_path)
    for case in cases:
        expected, events = (accelerator.events_of(trained[name][case]) for name in ("cpu", "accelerator"))
        assert len(toy.losses(expected)) == 5, case
        if accelerator.vendor() == accelerator.ACME:
            assert (case, results(events)) == (case, results(expected))
        else:
            assert toy.losses(events) == pytest.approx(toy.losses(expected), rel=ROUNDING.get(case, 0.03)), case


def results(events: list[Event]) -> dict[str, Any]:
    """What a training computed, without how long it took."""
    (evaluated,), finished = toy.values(events, "EVALUATE"), events[-1].value
    return {
        "losses": toy.losses(events),
        "metrics": {name: value for name, value in evaluated.items() if name != "time"},
        "parameters": [rank["parameters_checksum"] for rank in finished["ranks"]],
        "flops": finished["flops_per_sample"],
    }


def test_a_vendor_is_yaml_and_a_plugin(tiny: Tiny, tmp_path: Path) -> None:
    """flagperf runs a case on a chip that it knows from files of the vendor's alone."""
    config = tiny("glm") | {"max_steps": 5}
    (expected,) = toy.fork_ranks(partial(toy.train, config), tmp_path / "cpu", ranks=1)
    folders = (f"--config-dir={accelerator.CHIP}", f"--config-dir={accelerator.CHIP.parent / 'acme'}")
    vendor = ("vendor=acme", "hardware=A1", "size=tiny", "runtime=process", f"code_dir={accelerator.CHIP / 'code'}")
    run = ("model=glm", "max_steps=5", f"sample_dir={config['sample_dir']}")
    done = subprocess.run(
        [*FLAGPERF, *folders, *vendor, *run],
        cwd=tmp_path,
        env=accelerator.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/run*/glm-pytorch-A1x1x1/round1/result.json")
    result = json.loads(path.read_text())
    assert (result["vendor"], result["verdict"], result["reasons"]) == ("acme", "VALID", [])
    values = result["values"]
    assert (values["device_name"], values["clock"], values["peak_memory_kind"]) == (
        "Acme A1",
        "device events",
        "device",
    )
    assert values["ranks"][0]["peak_allocated"] == pytest.approx(values["peak_memory"] / 2, rel=0.01)
    assert values["final_loss"] == pytest.approx(expected[-1].value["final_loss"], rel=1e-4)
