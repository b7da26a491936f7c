"""`flagperf run probe=alone`, and a run that probes: real ranks on this machine's CPU."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.config.compose import compose
from flagperf.errors import ConfigError

FLAGPERF = (sys.executable, "-c", "from flagperf.cli.main import main; main()")
DATA = Path(__file__).parents[1] / "data"
FIGURES = ["fp32", "fp16", "bf16", "memory", "host_to_device", "all_reduce_node"]
COLUMNS = "rank host device fp32 [TFLOP/s] fp16 [TFLOP/s] bf16 [TFLOP/s] memory [GB/s] host to device [GB/s]"
COLUMNS += " all-reduce, node [GB/s]"


def flagperf(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FLAGPERF, *words], capture_output=True, text=True, cwd=cwd, timeout=280, check=False)


@pytest.mark.slow
@pytest.mark.torch
def test_two_ranks_are_measured_and_told_from_each_other(tmp_path: Path) -> None:
    done = flagperf("run", "probe=alone", "nproc=2", "monitor.interval=1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/probe*/probe.json")
    told = json.loads(path.read_text())
    assert [(one["rank"], one["host"], list(one["figures"])) for one in told["devices"]] == [
        (rank, socket.gethostname(), FIGURES) for rank in (0, 1)
    ]
    assert all(value > 0 for one in told["devices"] for value in one["figures"].values())
    assert (told["job"], told["data_sheet"]) == ("resnet50-pytorch-cpux1x2", {})
    head, first, second, mean, *rest = done.stdout.splitlines()
    assert " ".join(head.split()) == COLUMNS
    assert [line.split()[0] for line in (first, second, mean)] == ["0", "1", "mean"]
    assert rest == [*(told["slower"] or ["No device is slower than its fellows."]), str(path)]
    assert flagperf("list", "runs", cwd=tmp_path).stdout == ""  # a probe is no run


@pytest.mark.torch
@pytest.mark.slow
def test_a_run_probes_after_its_training(tmp_path: Path) -> None:
    done = flagperf("model=glm", "nproc=2", "max_steps=2", "probe=run", "result_dir=out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("out/run*/*/round1/result.json")
    result = json.loads(path.read_text())
    values, achieved = result["values"], [one["figures"] for one in result["probe"]]
    assert [list(figures) for figures in achieved] == [FIGURES] * 2
    share = values["model_flops"] / sum(figures["fp32"] for figures in achieved)
    assert (values["mfu"], values["mfu_achieved"]) == (None, pytest.approx(share))
    again = flagperf("report", str(path.parents[2]), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    report = (path.parents[2] / "report.md").read_text()
    assert "What the devices achieved after round 1, measured by the probe:" in report
    events = (path.parent / f"{socket.gethostname()}_noderank0/rank1.out.log").read_text()
    assert events.index('"TRAIN_END"') < events.index('"PROBE"') < events.index('"FINISHED"')


def test_another_framework_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        compose(["framework=paddle", "model=bert", "probe=run"])
    assert str(caught.value) == (
        "the devices are measured through PyTorch alone\n"
        "  where:   command line\n  key:     probe\n  given:   run\n  do:      framework=pytorch, or leave out probe="
    )


@pytest.mark.torch
@pytest.mark.slow
def test_a_device_that_a_plug_in_brings_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{DATA}/acme_chip/code")
    acme = ("--config-dir", f"{DATA}/acme_chip", "--config-dir", f"{DATA}/acme", "vendor=acme", "hardware=A1")
    peak = "hardware.peak_flops={fp32: 1.0e+12}"
    done = flagperf("run", "probe=alone", *acme, peak, "division=open", "runtime=process", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/probe*/probe.json")
    (device,) = json.loads(path.read_text())["devices"]
    figures = ["fp32", "tf32", "fp16", "bf16", "memory"]  # the chip has no page-locked memory
    assert (device["device"], list(device["figures"])) == ("Acme A1", figures)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["rank", "0", "data", str(path)]
