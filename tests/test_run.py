"""The commands of the README, run as a user runs them: real training on this CPU, read back from the files."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
import yaml
from flagperf_command import FLAGPERF, flagperf

ROOT = Path(__file__).parents[1]
SHORT = ("max_steps=3",)

pytestmark = pytest.mark.torch


def results(folder: Path) -> dict[str, Any]:
    """job/round → result.json of the only run below `folder`/result."""
    found = sorted(folder.glob("result/run*/*/round*/result.json"))
    return {f"{path.parts[-3]}/{path.parts[-2]}": json.loads(path.read_text()) for path in found}


def descendants_of(mark: str) -> list[psutil.Process]:
    """Processes whose command line names the folder `mark`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(mark in word for word in process.info["cmdline"] or []):
            found.append(process)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a user whose run has reached its target, and what the run said.

    Whatever the user's shell has set for the interpreter, torchrun, bash and the caches of Python.
    """
    folder = tmp_path_factory.mktemp("user")
    cheat, hook = folder / "cheat", folder / "hook.py"
    for file in (cheat, hook, folder / "bash_env"):
        file.write_text(f"#!/bin/sh\ntouch {folder}/cheated\n")
        file.chmod(0o755)
    others = {
        "PYTHON_EXEC": str(cheat),
        "PET_RUN_PATH": "1",
        "BASH_ENV": str(folder / "bash_env"),
        "PYTHONWARNINGS": "ignore::hook.Hook",
        "PYTHONPYCACHEPREFIX": str(folder / "cache"),
    }
    done = flagperf("model=distilbert", "nproc=2", "require_target=true", "log_freq=1", cwd=folder, **others)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (folder / "cheated").exists()
    told = next(folder.glob("result/run*/flagperf_run.log")).read_text()
    line = next(line for line in told.splitlines() if "variables that do not reach the ranks: " in line)
    assert {*others} <= {*re.split("[ ,;]+", line)}
    return folder, done.stdout


def test_a_tiny_case_reaches_its_target_and_is_reported_again(trained: tuple[Path, str]) -> None:
    folder, said = trained
    ((name, result),) = results(folder).items()
    assert name == "distilbert-pytorch-cpux1x2/round1"
    assert (result["verdict"], result["reasons"]) == ("VALID", [])
    assert (result["target_reached"], result["sample_data"], result["values"]["stop_reason"]) == (True, True, "target")
    assert len(result["values"]["ranks"]) == 2
    python = result["built"]["software"]["python"]
    uncached = str(ROOT / "flagperf/trainer/start/uncached.py")
    assert (python["executable"], python["argv"][1:4]) == (sys.executable, ["-u", uncached, "flagperf.trainer"])
    (run,) = folder.glob("result/run*")
    job = run / "distilbert-pytorch-cpux1x2"
    assert {path.name for path in job.iterdir()} >= {"config.yaml", "changes.yaml", "summary.json"}
    (node,) = (job / "round1").glob("*_noderank0")
    ranks = {"rank0.out.log", "rank1.out.log"}
    logs = {"start_pytorch_task.log", "sys_info.log", "cpu_monitor.log", "mem_monitor.log"}
    assert {path.name for path in node.iterdir()} >= ranks | logs
    report = (run / "report.md").read_text()
    assert "sample data" in report
    assert "~~~~sh\nflagperf model=distilbert nproc=2 require_target=true log_freq=1\n~~~~" in report
    assert str(run / "report.html") in said
    (run / "report.md").unlink()
    again = flagperf("report", str(run), cwd=folder)
    assert again.returncode == 0, again.stderr
    assert (run / "report.md").read_text() == report


def test_a_run_is_bundled_verified_and_exported(trained: tuple[Path, str], tmp_path: Path) -> None:
    (run,) = trained[0].glob("result/run*")
    for words in (("export", str(run), "run.tar.zst"), ("export", str(run), "benchmark.json")):
        done = flagperf(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    schema = json.loads((ROOT / "docs" / "benchmark.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "benchmark.json").read_text()), schema)
    done = flagperf("verify", "run.tar.zst", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^figures: [0-9]+ agree, 0 differ, [0-9]+ are not recomputed$", done.stdout, re.M)
    agreeing = set(re.findall(r"^([a-z].*?\S)  .*  agrees  ", done.stdout, re.M))
    figures = {"p_whole", "p_train", "p_core", "steady_throughput", "mfu", "built", "target_reached"}
    of_ranks = {f"rank 0: {name}" for name in ("step_time_p50", "step_time_p99", "step_time_sum", "loss_checksum")}
    assert agreeing >= figures | of_ranks


@pytest.mark.slow
def test_rounds_have_their_own_seeds_and_are_summed_up(tmp_path: Path) -> None:
    done = flagperf("model=glm", "repeat=2", "seed=5", "max_cv=1.0e-9", *SHORT, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("result/run*/glm-pytorch-cpux1x1/summary.json")
    summary = json.loads(path.read_text())
    statistics = summary["statistics"]
    assert {figure: value["n"] for figure, value in statistics.items() if figure in ("p_whole", "e2e_time")} == {
        "p_whole": 2,
        "e2e_time": 2,
    }
    digest = hashlib.sha256((path.parent / "round1" / "result.json").read_bytes()).hexdigest()
    first, second = summary["results"]
    assert (first["seed"], second["seed"]) == (5, 6)
    assert (first["previous"], second["previous"]) == ("", digest)
    assert all(0 <= one["trained"] < one["seconds"] for one in (first, second))
    assert first["values"]["final_loss"] != second["values"]["final_loss"]
    read = [yaml.safe_load((path.parent / f"round{number}/config.yaml").read_text())["seed"] for number in (1, 2)]
    assert (read, summary["config"]["seed"]) == ([5, 6], 5)
    assert (summary["verdict"], [one["verdict"] for one in summary["results"]]) == ("SUSPECT", ["VALID", "VALID"])
    (reason,) = summary["reasons"]
    assert "over max_cv=1e-09" in reason
    assert (
        f"**glm-pytorch-cpux1x1, all rounds: SUSPECT**\n\n- {reason}\n" in (path.parents[1] / "report.md").read_text()
    )
    assert "SUSPECT" in done.stdout and "all rounds: the throughput of its rounds varies" in done.stdout


@pytest.mark.slow
def test_a_training_that_only_makes_it_worse_is_suspect(tmp_path: Path) -> None:
    """A closed run, and its throughput is as good as any. That it misses its target is an exit code of its own."""
    done = flagperf("model=vit", "lr=3", "max_steps=100", "require_target=true", cwd=tmp_path)
    assert done.returncode == 6, done.stdout + done.stderr
    (result,) = results(tmp_path).values()
    (reason,) = result["reasons"]
    assert result["verdict"] == "SUSPECT"
    assert re.match(r"the loss (ended above where it began|diverged): ", reason)  # threads add up in another order
    assert f"round 1: {reason}" in " ".join(done.stdout.split())
    missed = r"target not reached \(require_target=true\): vit-pytorch-cpux1x1, round 1: acc1 [\d.]+ instead of acc1 ≥ "
    assert re.search(missed, done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_sweep_runs_each_value_and_goes_on_after_a_failed_job(tmp_path: Path) -> None:
    broken = tmp_path / "data"
    (broken / "train" / "0").mkdir(parents=True)
    (broken / "val" / "0").mkdir(parents=True)
    for split in ("train", "val"):
        for number in range(40):
            (broken / split / "0" / f"bad{number}.JPEG").write_bytes(b"not a picture")
    words = ("model=resnet50", f"data_dir={broken},null", "num_workers=0", *SHORT)
    done = flagperf("-m", *words, cwd=tmp_path)
    verdicts = [(result["status"], result["verdict"]) for result in results(tmp_path).values()]
    assert sorted(verdicts) == [("failed", "INVALID"), ("finished", "VALID")]
    assert "cannot read an image of the data set" in done.stdout
    assert f"{broken}/train/0/bad" in done.stdout
    assert done.returncode == 2  # what the user gave is wrong, also where a rank finds it


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep whose first job is a long training that has made its first steps."""
    words = ("-m", "seed=0,1", "max_epochs=100000", "lr=1.0e-9", "log_freq=1")  # far from its target for long
    process = subprocess.Popen(
        [*FLAGPERF, *words], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    deadline = time.monotonic() + 60
    while not any("STEP_END" in path.read_text() for path in tmp_path.glob("result/run*/*/round1/*/rank0.out.log")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    yield process
    process.kill()
    if process.stdout and not process.stdout.closed:
        process.communicate()


def verdicts(run: Path) -> dict[str, str]:
    """Job → verdict and the start of its reason, as a report of the run says them."""
    done = flagperf("report", str(run), cwd=run)
    assert done.returncode == 0, done.stderr
    found = re.findall(
        r"\*\*resnet50-pytorch-cpux1x1,(.*), round 1: (\w+)\*\*\n\n- ([\w ]+)", (run / "report.md").read_text()
    )
    return {job: f"{verdict}, {reason}" for job, verdict, reason in found}


@pytest.mark.slow
def test_an_interrupt_stops_all_and_keeps_the_logs(tmp_path: Path, running: subprocess.Popen[str]) -> None:
    (run,) = tmp_path.glob("result/run*")
    assert verdicts(run) == {"seed=0": "RUNNING, running", "seed=1": "RUNNING, waiting"}
    assert "- running: step " in (run / "report.md").read_text()
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=30)
    assert running.returncode == 130, output
    assert [result["status"] for result in results(tmp_path).values()] == ["interrupted"]
    assert descendants_of(str(run)) == []
    assert (run / "report.html").exists()
    told = json.loads((run / "resnet50-pytorch-cpux1x1,seed=1" / "summary.json").read_text())
    assert [(one["status"], one["verdict"], one["reasons"]) for one in told["results"]] == [
        ("not started", "INVALID", ["not started"])
    ]
    assert "seed=1, round 1: not started" in output
    report = (run / "report.md").read_text()
    assert verdicts(run) == {"seed=0": "INVALID, interrupted", "seed=1": "INVALID, not started"}
    assert (run / "report.md").read_text() == report
