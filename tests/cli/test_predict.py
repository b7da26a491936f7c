"""`flagperf predict` in the terminal, and a run with the mesh that it chooses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flagperf_command import flagperf

from flagperf.contract.regular import read_yaml

PRODUCT = (  # figures with which a CPU has times
    "hardware.peak_flops={fp32: 1.0e+11}",
    "hardware.memory_bandwidth=1.0e+10",
    "hardware.links={node: {bandwidth: 1.0e+9}}",
    "division=open",
)


def printed(*words: str, cwd: Path) -> str:
    """What the command prints, with one blank between words. Traces are kept in the folder."""
    done = flagperf(*words, cwd=cwd, XDG_CACHE_HOME=str(cwd))
    assert done.returncode == 0, done.stdout + done.stderr
    return "\n".join(" ".join(line.split()) for line in done.stdout.splitlines())


ANSWER = """\
resnet50-pytorch-A100x1x2 on 1 x 2 A100: memory of one device
parameters 0.02 GiB
gradients 0.02 GiB
optimizer 0.02 GiB
activations 0.01 GiB
temporary 0.00 GiB
communication 0.02 GiB
tensors at the peak 0.09 GiB
with the margin 2.61 GiB = 1.21 x tensors + 2.5 GiB, from the framework's file
peak: backward, the module layer2.0.bn3
The step fits into 40 GiB.
largest train_batch_size that fits: 48699 (now 32)
operations of a step: 0.003206 TFLOP; samples of a step: 32
eager: at most 141,258 samples/s, a step takes at least 0.453 ms; without overlap of communication at most 123,772 \
samples/s; MFU at most 36.3 %
fused: at most 164,959 samples/s, a step takes at least 0.388 ms; without overlap of communication at most 141,599 \
samples/s; MFU at most 42.4 %
The figures of the product are from the data sheet of A100. MFU counts the operations of the traced step.
operators at least [ms] share limited by
convolution 0.164 36.3 % compute
optimizer 0.131 29 % memory bandwidth
copy 0.0719 15.9 % memory bandwidth
elementwise 0.0408 9 % memory bandwidth
normalisation 0.0377 8.32 % memory bandwidth
other 0.00607 1.34 % memory bandwidth
matmul 0.000666 0.147 % memory bandwidth
reduction 0.000345 0.0761 % memory bandwidth
collective along ranks type phase calls GiB
broadcast dp_replicate 2 float32 forward 1 6.48e-05
broadcast dp_replicate 2 int64 forward 1 1.27e-07
all_reduce dp_replicate 2 float32 backward 1 0.0173"""
CHOICE = """\
parallel=auto: of 3 meshes those are traced that may be the fastest; a trace takes 10 s or more
dp_shard=2: at most 509.4 samples/s, 2.5 GiB of a device
tp=2: at most 314 samples/s, 2.5 GiB of a device
pp=2: not traced, it reaches at most 347.3 samples/s
parallel=auto: parallel.mesh.dp_replicate=1 parallel.mesh.dp_shard=2 parallel.mesh.tp=1 parallel.mesh.pp=1 \
parallel.mesh.cp=1 parallel.mesh.ep=1, the fastest predicted of 3 meshes: at most 509.4 samples/s, \
2.5 GiB of a device"""


@pytest.mark.slow
@pytest.mark.torch
def test_the_whole_answer(tmp_path: Path) -> None:
    words = ("model=resnet50", "vendor=nvidia", "hardware=A100", "nproc=2", "size=tiny")
    assert printed("predict", *words, cwd=tmp_path) == ANSWER


@pytest.mark.slow
@pytest.mark.torch
def test_a_run_with_the_mesh_that_is_chosen(tmp_path: Path) -> None:
    """Configuration, changes and first lines name the mesh; then the run stands beside its own prediction."""
    words = ("model=llama3_8b", "nproc=2", *PRODUCT)
    steps = ("max_steps=6", "warmup_steps=2", "monitor.interval=60")
    first = printed("run", *words, *steps, "parallel=auto", cwd=tmp_path)[: len(CHOICE)]
    (config,) = tmp_path.glob("result/run*/*/config.yaml")
    mesh = read_yaml(config)["parallel"]["mesh"]
    assert (first, mesh) == (CHOICE, {"dp_replicate": 1, "dp_shard": 2, "tp": 1, "pp": 1, "cp": 1, "ep": 1})
    changes = {change["key"]: change["after"] for change in read_yaml(config.with_name("changes.yaml"))}
    assert changes["parallel.mesh.dp_shard"] == 2
    beside = (f"measured={config.parents[1]}", "html=page.html")
    *_, measured, page = printed("predict", *words, *beside, cwd=tmp_path).splitlines()
    rates = r"[\d.]+ samples/s, [\d.]+ % of the eager bound, [\d.]+ % of the fused bound"
    assert re.fullmatch(f"measured on 1 x 2 devices: {rates}", measured)
    assert '"name":"measured"' in Path(tmp_path, page).read_text(encoding="utf-8")
