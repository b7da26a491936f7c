"""What a run says of a step that does not fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from contract.test_trace import CASE, TRACE
from example import example_job
from flagperf_command import FLAGPERF

from flagperf.config.compose import compose
from flagperf.contract.hardware import GIB
from flagperf.contract.trace import MemoryPeak
from flagperf.errors import ConfigError
from flagperf.predict.memory import Fit
from flagperf.run import fit
from flagperf.run.predicted import Effect

TRACED = replace(
    TRACE,
    case=replace(CASE, batch_size=4),
    memory=MemoryPeak(0, 0, 0, 240 * GIB, 0, 0, module="", phase="backward"),
)


def test_refusal_names_changes_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Effect({"activation_checkpointing": True, "loss_chunk": 2048}, Fit(27.6, 35.9, 80))
    monkeypatch.setattr(fit, "ways_to_fit", lambda _: [way])
    assert str(fit.refusal(example_job(), TRACED, Fit(240.0, 292.9, 80))) == (
        "a step does not fit into the memory of a device\n"
        "  where:   config.yaml\n"
        "  key:     train_batch_size\n"
        "  given:   4: 240.0 GiB of tensors at the peak, in backward\n"
        "  allowed: at most 80 GiB, the memory of cpu\n"
        "  do:      activation_checkpointing=true loss_chunk=2048 (35.9 GiB) | predict=false: start all the same"
    )


TRACING = "one step is traced without a device, to predict its memory and time (predict=false leaves this out)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said", "advice"),
    [
        pytest.param(["train_batch_size=64"], [TRACING], None, id="fits"),
        pytest.param(
            ["train_batch_size=450"],
            [TRACING, "a step may not fit: predicted 46.7 GiB (36.5 GiB of tensors); A100 has 40 GiB"],
            None,
            id="without the margin: a warning",
        ),
        pytest.param(
            ["train_batch_size=1024"],
            [TRACING, "the step does not fit; changes that fit are being searched"],
            "train_batch_size=256 (27.8 GiB) | train_batch_size=1 (3.0 GiB) | predict=false: start all the same",
            id="refused",
        ),
        pytest.param(["train_batch_size=1024", "predict=false"], [], None, id="not asked for"),
        pytest.param(["train_batch_size=1024", "size=tiny"], [], None, id="a tiny case is not traced"),
    ],
)
def test_check_of_a_case(
    words: list[str], said: list[str], advice: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """resnet50 of full size on a device with 40 GiB, really traced."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    full = ["size=full", f"data_dir={tmp_path}", "precision=tf32", "nproc=1", "division=open", "dry_run=true"]
    job = compose(["model=resnet50", "vendor=nvidia", "hardware=A100", *full, *words])
    told: list[str] = []
    refused = None
    try:
        fit.check_fit(job, tmp_path, told.append)
    except ConfigError as error:
        refused = error.advice
    assert (told, refused) == (said, advice)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, id="SIGHUP", marks=pytest.mark.slow),
    ],
)
def test_a_signal_during_the_trace_ends_the_run_at_once(tmp_path: Path, number: int) -> None:
    """The program that traces ends with its children, and the run is summed up."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nsleep 600 & echo $$ $! >{tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pids; wait\n")
    python.chmod(0o755)
    words = ["probe=run", f"runtime.python={python}", f"result_dir={tmp_path}", "run_name=run"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    run = subprocess.Popen([*FLAGPERF, *words], stdout=subprocess.PIPE, text=True, env=environment)
    while not (tmp_path / "pids").exists():
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(number)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 130, output
    left = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split() if psutil.pid_exists(int(pid))]
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]
    (round_,) = (tmp_path / "run").glob("*/round1/result.json")
    assert json.loads(round_.read_text())["status"] == "interrupted"
    assert (tmp_path / "run/report.md").exists()
