"""`flagperf run probe=alone`, and a run that probes: real ranks on this machine's CPU."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from flagperf_command import flagperf

from flagperf.cli.fabric import measure_fabric
from flagperf.config.compose import compose, compose_jobs
from flagperf.errors import ConfigError

DATA = Path(__file__).parents[1] / "data"
FIGURES = ["fp32", "fp16", "bf16", "memory", "host_to_device", "all_reduce_node"]
COPIES = ("host_to_device", "device_to_host", "device_to_device")
FACTORS = {  # bus bandwidth / algorithm bandwidth of two ranks
    **dict.fromkeys(COPIES, 1.0),
    "all_reduce": 1.0,
    "all_gather": 0.5,
    "reduce_scatter": 0.5,
    "broadcast": 1.0,
    "all_to_all": 0.5,
    "send_recv": 1.0,
}
COLLECTIVES = list(FACTORS)[3:]
COLUMNS = "rank host device fp32 [TFLOP/s] fp16 [TFLOP/s] bf16 [TFLOP/s] memory [GB/s] host to device [GB/s]"
COLUMNS += " all-reduce, node [GB/s]"


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
        "only PyTorch measures devices\n"
        "  where:   command line\n  key:     probe\n  given:   run\n  do:      framework=pytorch, or leave out probe="
    )


def test_one_rank_has_no_link() -> None:
    (job,) = compose_jobs(["probe=links", "size=tiny"])
    with pytest.raises(ConfigError) as caught:
        measure_fabric(job, "probe.json")
    assert str(caught.value) == (
        "a search for a slow link needs two ranks\n"
        "  where:   command line\n  key:     nproc\n  given:   1\n  do:      nproc=2, or a cluster and nnodes=2"
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


@pytest.mark.torch
@pytest.mark.slow
def test_links_of_two_ranks(tmp_path: Path) -> None:
    # 16 MiB: a link shows its bandwidth, also on a busy machine. predict needs the bandwidth.
    # fabric.slow: other tests on this machine may slow one direction, not by a factor of 20.
    words = ("probe=fabric", "nproc=2", "fabric.largest=16m", "fabric.seconds=0.02", "fabric.slow=0.05")
    done = flagperf("run", *words, "monitor.interval=60", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/probe*/probe.json")
    told = json.loads(path.read_text())
    assert [(curve["kind"], curve["group"], curve["ranks"]) for curve in told["curves"]] == [
        *((kind, "device", 1) for kind in COPIES),
        *((kind, "node, all, dp_replicate", 2) for kind in COLLECTIVES),
    ]
    for curve in told["curves"]:
        assert (curve["sizes"], curve["reason"]) == ([1024 * 4**step for step in range(8)], "")
        assert curve["bus_bandwidths"][-1] == pytest.approx(FACTORS[curve["kind"]] * 2**24 / curve["seconds"][-1])
    assert (told["backend"], told["slow"], told["searches"][0]["measured"]) == ("gloo", [], 2)
    assert "Bus bandwidth: node, all, dp_replicate (2 ranks)" in path.with_name("report.html").read_text()
    words = ("model=resnet50", "nproc=2", "train_batch_size=2", "division=open", "hardware.peak_flops={fp32: 1.0e+11}")
    done = flagperf("predict", *words, "hardware.memory_bandwidth=1.0e+10", f"probe={path}", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from the data sheet of cpu (devices) and the probe of this job (links)." in done.stdout


@pytest.mark.torch
@pytest.mark.slow
def test_operators_of_a_device_that_a_plug_in_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{DATA}/acme_chip/code")
    acme = ("--config-dir", f"{DATA}/acme_chip", "--config-dir", f"{DATA}/acme", "vendor=acme", "hardware=A1")
    words = ("division=open", "runtime=process", "operators.largest=64k", "operators.seconds=0.001")
    peaks = ("hardware.peak_flops={fp32: 1.0e+12}", "hardware.memory_bandwidth=1.0e+12")
    done = flagperf("run", "probe=operators", *acme, *words, *peaks, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/probe*/probe.json")
    measured = {one["name"]: one for one in json.loads(path.read_text())["operators"]}
    assert len(measured) == 52
    assert {name: one["reason"] for name, one in measured.items() if one["reason"]} == {}
    mm = measured["mm"]
    assert (mm["shapes"], mm["operations"], mm["bytes"]) == ([[128, 128], [128, 128]], 2 * 128**3, 3 * 4 * 128**2)
    assert mm["share"] == pytest.approx(max(mm["operations"], mm["bytes"]) / mm["seconds"] / 1e12)
    assert all(one["error"] < 1e-3 and one["seconds"] > 0 for one in measured.values())
    assert "The peaks are those of the data sheet." in done.stdout


@pytest.mark.torch
@pytest.mark.slow
def test_copies_of_a_device_without_page_locked_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{DATA}/acme_chip/code")
    acme = ("--config-dir", f"{DATA}/acme_chip", "--config-dir", f"{DATA}/acme", "vendor=acme", "hardware=A1")
    words = ("division=open", "runtime=process", "fabric.largest=16k", "fabric.seconds=0.001")
    done = flagperf("run", "probe=fabric", *acme, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/probe*/probe.json")
    curves = {curve["kind"]: curve for curve in json.loads(path.read_text())["curves"]}
    pageable = "the memory of the host is pageable, because acme has no page-locked memory"
    assert {kind: (curve["sizes"], curve["reason"]) for kind, curve in curves.items()} == {
        "host_to_device": ([1024, 4096, 16384], pageable),
        "device_to_host": ([1024, 4096, 16384], pageable),
        "device_to_device": ([1024, 4096, 16384], ""),
    }
    assert f"host to device (device): {pageable}" in done.stdout
