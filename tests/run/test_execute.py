"""A round from its plan to its outcome, with real ranks."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import platform
import random
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
import yaml
from rich.console import Console

from flagperf.config.compose import compose
from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Failure, Outcome
from flagperf.errors import HostError
from flagperf.hosts.facts import Facts
from flagperf.hosts.shell import shell
from flagperf.plan.plan import make_plan
from flagperf.results.rank_log import read_rank_logs
from flagperf.run.execute import execute
from flagperf.run.folder import create
from flagperf.run.node_logs import NodeLogs
from flagperf.run.node_run import NodeRun
from flagperf.run.progress import Progress
from flagperf.run.run_log import run_log

FAULTS = Path(__file__).parents[1] / "faults"
HOST = socket.gethostname()

pytestmark = [pytest.mark.asyncio, pytest.mark.torch]


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobConfig:
    """A case of two ranks that take five steps."""
    monkeypatch.setenv("PYTHONPATH", str(FAULTS))
    return composed(tmp_path, "model=workload")


def composed(folder: Path, *words: str) -> JobConfig:
    overrides = ["nproc=2", f"result_dir={folder}", "run_name=run", "monitor.interval=0.1"]
    return compose([*words, *overrides], [FAULTS / "conf"])


async def run_round(job: JobConfig, folder: Path, number: int = 1) -> Outcome:
    with Progress(job) as progress:
        return await execute(job, make_plan(job, number, folder), folder, progress)


async def test_a_round_finishes_with_its_files_and_its_waterfall(workload: JobConfig) -> None:
    folder = create(workload)
    outcome = await run_round(workload, folder)
    case = folder / "workload-workload-cpux1x2"
    node = case / "round1" / f"{HOST}_noderank0"
    assert (outcome.status, outcome.failure, outcome.exit_statuses) == ("finished", None, (0,))
    assert outcome.folder == case / "round1"
    assert {path.name for path in case.iterdir()} == {"config.yaml", "changes.yaml", "round1"}
    assert {path.name for path in node.iterdir()} == {
        "rank0.out.log",
        "rank1.out.log",
        "start_workload_task.log",
        "sys_info.log",
        "cpu_monitor.log",
        "mem_monitor.log",
        "pwr_monitor.log",
        "host_monitor.log",
    }
    assert yaml.safe_load((case / "config.yaml").read_text()) == workload.config
    assert json.loads((case / "round1/plan.json").read_text())["nodes"][0]["log_dir"] == str(node)
    about = dict(line.split(": ", 1) for line in (node / "sys_info.log").read_text().splitlines())
    assert about["kernel"] == f"{platform.system()} {platform.release()} {platform.machine()}"
    assert (about["python"], about["torch"]) == (platform.python_version(), version("torch"))
    assert "page_caches" not in about
    phases = outcome.phases[node.name]
    names = "connect check image send start launch imports init first_step stop collect clean"  # it says no rendezvous
    assert list(phases) == names.split()
    assert sum(phases.values()) < outcome.seconds


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
async def test_a_host_forgets_cached_files_where_asked_to(workload: JobConfig) -> None:
    file = Path(os.__file__)  # on a disk, and nobody reads it: Python has it compiled
    file.read_bytes()
    assert resident(file) > 0
    job = dataclasses.replace(workload, clear_caches=True)
    outcome = await run_round(job, create(job))
    about = (next(outcome.folder.glob("*_noderank0")) / "sys_info.log").read_text()
    assert (resident(file), "page_caches: cleared\n" in about) == (0, True)


@pytest.mark.parametrize("status", [0, 1])
async def test_ranks_read_whether_caches_were_cleared(
    workload: JobConfig, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Not whether that was asked for; the job's own config.yaml says this."""
    monkeypatch.setattr("flagperf.hosts.page_caches.CLEAR", shell(f"exit {status}"))
    job = dataclasses.replace(workload, clear_caches=True, config={**workload.config, "clear_caches": True})
    outcome = await run_round(job, create(job))
    read = [log.all("SUBMIT_INFO")[0].value["config"]["clear_caches"] for log in read_rank_logs(outcome.folder)]
    asked = yaml.safe_load((outcome.folder.parent / "config.yaml").read_text())["clear_caches"]
    assert (outcome.status, read, asked) == ("finished", [status == 0] * 2, True)


def resident(path: Path) -> int:
    """Bytes of a file that are in memory."""
    done = subprocess.run(["fincore", "-nbo", "RES", str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        pytest.param(
            ["deadlines.start=3.5"],
            "no sign of life from ranks 0, 1 within 3.5 s (deadlines.start): "
            "its logs cannot be read: no answer for 4 s",
            id="deadlines pass",
        ),
        pytest.param(
            ["deadlines.stall=1.5"],
            "lost host: its logs cannot be read: no answer for 2 s (deadlines.stall)",
            id="the host is lost in the end",
        ),
    ],
)
async def test_logs_without_an_answer_do_not_stop_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], cause: str
) -> None:
    """As where a network file system hangs."""

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setenv("PYTHONPATH", str(FAULTS))
    monkeypatch.setattr(NodeLogs, "events", never)
    job = composed(tmp_path, "model=workload", "max_steps=1000", *words)
    outcome = await run_round(job, create(job))
    assert outcome.failure == Failure(cause, host=HOST, node_rank=0, phase="start")


async def test_a_wait_that_fails_is_the_failure_of_the_round(
    workload: JobConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of no known kind, such as an answer of docker that no code expects, is no good end."""

    async def wait(_: object) -> None:
        raise RuntimeError("ttrpc: closed")

    monkeypatch.setattr(NodeRun, "wait", wait)
    outcome = await run_round(workload, create(workload))
    failure = Failure("a bug of flagperf: RuntimeError: ttrpc: closed", phase="start")
    assert (outcome.status, outcome.failure) == ("failed", failure)


async def test_rounds_lie_beside_each_other(workload: JobConfig) -> None:
    folder = create(workload)
    await run_round(workload, folder, 1)
    second = await run_round(workload, folder, 2)
    assert second.status == "finished"
    assert {path.name for path in second.folder.parent.glob("round*")} == {"round1", "round2"}
    logs = {number: read_rank_logs(second.folder.parent / f"round{number}") for number in (1, 2)}
    submitted = {
        number: [log.all("SUBMIT_INFO")[0].value["config"]["seed"] for log in rank_logs]
        for number, rank_logs in logs.items()
    }
    assert submitted == {1: [0, 0], 2: [1, 1]}


@pytest.mark.slow
async def test_a_port_that_is_taken_meanwhile_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By torchrun: flagperf's own starter listens where there are several nodes only."""
    monkeypatch.setenv("PYTHONPATH", str(FAULTS))
    by_torchrun = composed(tmp_path, "model=collective", "task.collective=false")
    folder = create(by_torchrun)
    with socket.socket() as bound:
        bound.bind(("", 0))  # taken, though nobody listens: as if a listener had come after the look
        taken = bound.getsockname()[1]
        free = random.randrange(20000, 30000)
        answers = iter((taken, free))
        monkeypatch.setattr(Facts, "free_port", lambda _: next(answers))
        outcome = await run_round(by_torchrun, folder)
    assert (outcome.status, outcome.failure) == ("finished", None)
    node = folder / "workload-torchrun-cpux1x2" / "round1" / f"{HOST}_noderank0"
    assert "EADDRINUSE" in (node / f"start_torchrun_task.port{taken}.log").read_text()
    assert f"rendezvous port {taken} is taken on {HOST}; trying another" in caplog.messages
    plan = json.loads((folder / "workload-torchrun-cpux1x2/round1/plan.json").read_text())
    assert plan["master_port"] == free


async def test_a_host_without_facts_is_refused(workload: JobConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = create(workload)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match=rf"^{HOST}: facts cannot be read: sh: No such file or directory$"):
        await run_round(workload, folder)


async def test_bugs_in_the_ending_phases_leave_their_tracebacks_and_the_run_still_cleans_up(
    workload: JobConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in each of them does not keep the next from its turn."""

    async def bug(_: NodeRun) -> None:
        raise ZeroDivisionError("as if by mistake")

    ending = ("stop", "collect", "clean")
    for phase in ending:
        monkeypatch.setattr(NodeRun, phase, bug)
    folder = create(workload)
    with run_log(folder, "info", Console(quiet=True)):
        outcome = await run_round(workload, folder)
    assert outcome.status == "failed"
    assert outcome.failure == Failure("ZeroDivisionError: as if by mistake", HOST, 0, phase="collect")
    assert tuple(outcome.phases[f"{HOST}_noderank0"])[-3:] == ending
    log = (folder / "flagperf_run.log").read_text()
    for phase in ending:
        assert f"{HOST}: a bug of flagperf in phase '{phase}'\nTraceback (most recent call last):\n" in log
    assert log.count("\nZeroDivisionError: as if by mistake\n") == 3
    assert [process for process in psutil.process_iter(["environ"]) if is_of(folder, process)] == []


def is_of(folder: Path, process: psutil.Process) -> bool:
    """Whether a process is a rank of the run in the folder."""
    return str(folder) in (process.info["environ"] or {}).get("FLAGPERF_LOG_DIR", "")


async def test_an_expected_error_in_an_ending_phase_is_told_in_one_line(
    workload: JobConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_: NodeRun) -> None:
        raise HostError(HOST, "no space left", advice="free some")

    monkeypatch.setattr(NodeRun, "collect", full)
    folder = create(workload)
    with run_log(folder, "info", Console(quiet=True)):
        outcome = await run_round(workload, folder)
    assert outcome.failure == Failure("no space left", HOST, 0, phase="collect")
    log = (folder / "flagperf_run.log").read_text()
    assert f"{HOST}: phase 'collect': no space left\n" in log
    assert "Traceback" not in log
