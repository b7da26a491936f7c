"""Faults injected for real into runs of the command line: cause, exit code, logs kept, nothing left running.

Ranks are started by flagperf's own starter; those that meet in a collective by torchrun, which takes seconds to import.
How soon faults are named is measured by benchmarks/failure_report.py.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from flagperf.contract.perflog import Event, parse

HERE = Path(__file__).parent
HOST = socket.gethostname()
FLAGPERF = Path(sys.executable).with_name("flagperf")


@dataclass
class Launcher:
    """A running `flagperf`, whose descendants are known by a variable of their environment."""

    process: subprocess.Popen[str]
    folder: Path  # the run folder
    mark: str

    def wait(self) -> tuple[int, str]:
        """Exit code, and what was printed."""
        output, _ = self.process.communicate(timeout=280)
        return self.process.returncode, output

    def left(self) -> list[str]:
        """Command lines of what is still running."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("FAULTS_MARK") == self.mark:
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue  # ended meanwhile
        return found

    def log(self, name: str, node: str = f"{HOST}_noderank0") -> str:
        found = list(self.folder.glob(f"*/round1/{node}/{name}"))
        return found[0].read_text(errors="replace") if found else ""

    def events(self, rank: int) -> list[Event]:
        return [event for line in self.log(f"rank{rank}.out.log").splitlines() if (event := parse(line))]

    def until_step(self, step: int) -> None:
        """Wait until rank 0 has logged the step, and rank 1 its start."""
        deadline = time.monotonic() + 60
        while not (self.events(1) and any(event.value.get("step") == step for event in self.events(0))):
            assert time.monotonic() < deadline and self.process.poll() is None, "training did not begin"
            time.sleep(0.05)

    def said(self) -> tuple[float, bool]:
        """When the failure was logged, in seconds since the epoch, and whether nothing had been stopped before."""
        before, time_, _ = re.split(r"^(\S+ \S+)\t\[ERROR\]", self.run_log(), maxsplit=1, flags=re.MULTILINE)
        return datetime.strptime(time_, "%Y-%m-%d %H:%M:%S,%f").timestamp(), "]stop  " not in before

    def run_log(self) -> str:
        return (self.folder / "flagperf_run.log").read_text()


def launch(folder: Path, *words: str, ignored: signal.Signals | None = None) -> Launcher:
    mark = uuid.uuid4().hex
    command = [str(FLAGPERF), "--config-dir", str(HERE / "conf"), "model=workload", "nproc=2"]
    command += [f"result_dir={folder.parent}", f"run_name={folder.name}", f"sample_dir={folder.parent}/sample", *words]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "FAULTS_MARK": mark}
    process = subprocess.Popen(
        command,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(ignored, signal.SIG_IGN) if ignored else None,
    )
    return Launcher(process, folder, mark)


RANK1 = f"rank 1 on {HOST} (node rank 0): "


@pytest.mark.parametrize(
    ("words", "where"),
    [
        pytest.param([], str(HERE / "conf" / "model" / "workload.yaml"), id="set by the case"),
        pytest.param(["task.step=2"], "command line", id="set by the command line"),
    ],
)
def test_a_configuration_that_a_rank_refuses(tmp_path: Path, words: list[str], where: str) -> None:
    flagperf = launch(tmp_path / "run", "task.fault=refuse", *words)
    code, output = flagperf.wait()
    assert code == 2
    said = f"{RANK1}no such step, during training"
    assert f"failed  {said}\n  where:   {where}\n  key:     task.step\n  given:   3\n" in output
    assert output.splitlines()[-1] == f"failed: {said}: task.step=3 ({where})"
    assert f"failed: {said}: task.step=3 ({where})" in (flagperf.folder / "report.md").read_text()


TORCHRUN = ("model=collective",)
TWO_NODES = ("cluster=twice", "nnodes=2", "nproc=1")


@pytest.mark.parametrize(
    ("words", "cause", "last_line"),
    [
        pytest.param(
            ["task.fault=raise", *TORCHRUN],
            RANK1 + "RuntimeError: the workload fails as it was told (exit code 1), during training",
            "RuntimeError: the workload fails as it was told",
            id="raises, and its peer follows",
            marks=[pytest.mark.slow],
        ),
        pytest.param(["task.fault=exit"], RANK1 + "exit code 3, during training", "leaving with 3", id="exits"),
        pytest.param(["task.fault=kill"], RANK1 + "signal SIGKILL, during training", "", id="is killed"),
        pytest.param(
            ["task.fault=kill", *TORCHRUN, *TWO_NODES],
            "rank 1 on right (node rank 1): signal SIGKILL, during training",
            "",
            marks=pytest.mark.slow,
            id="is killed on the second of two nodes",
        ),
        pytest.param(
            ["task.fault=leave", *TORCHRUN, *TWO_NODES],
            "rank 1 on right (node rank 1): exit code 0 before the training had ended, during training",
            "",
            id="leaves with 0 on the second of two nodes",
            marks=[pytest.mark.slow],
        ),
        pytest.param(
            ["task.fault=leave", *TORCHRUN],
            RANK1 + "exit code 0 before the training had ended, during training",
            "",
            id="leaves with 0",
            marks=[pytest.mark.slow],
        ),
        pytest.param(
            ["task.fault=leave", "task.rank=0", "nproc=1"],
            f"rank 0 on {HOST} (node rank 0): exit code 0 before the training had ended, during training",
            "",
            id="leaves with 0, being the only one",
        ),
        pytest.param(
            ["task.fault=kill_launcher", *TWO_NODES],
            "right (node rank 1): the launcher of the ranks ended: signal SIGKILL, during training",
            "",
            id="has its launcher killed on the second of two nodes",
        ),
    ],
)
def test_a_dead_rank_is_named_before_anything_is_stopped(
    tmp_path: Path, words: list[str], cause: str, last_line: str
) -> None:
    flagperf = launch(tmp_path / "run", *words)
    code, output = flagperf.wait()
    assert code == 5
    assert f"failed  {cause}\n" in output
    assert output.splitlines()[-1] == f"failed: {cause}"
    assert last_line in output
    assert flagperf.left() == []
    if "nnodes=2" not in words:
        assert flagperf.said()[1]
        assert [event.event for event in flagperf.events(0)][:2] == ["SUBMIT_INFO", "INIT_START"]
        said = "rank 1 ended with exit status " if TORCHRUN[0] not in words else "ChildFailedError"
        assert said in flagperf.log("start_*_task.log") or "nproc=1" in words
        assert "kernel: Linux" in flagperf.log("sys_info.log")


@pytest.mark.parametrize(
    ("words", "cause", "deadline"),
    [
        pytest.param(
            ["task.fault=hang", "deadlines.stall=1"],
            RANK1 + "hang: no progress for 1 s (deadlines.stall), during training",
            1.0,
            id="hangs",
        ),
        pytest.param(
            ["task.fault=hang", *TORCHRUN, "deadlines.stall=1"],
            RANK1 + "hang: no progress for 1 s (deadlines.stall), during training",
            1.0,
            id="hangs, and its peer waits in a collective",
            marks=[pytest.mark.slow],
        ),
        pytest.param(
            ["task.fault=hang_deaf", "deadlines.stall=1", "deadlines.stop=0.5"],
            RANK1 + "hang: no progress for 1 s (deadlines.stall), during training",
            1.0,
            id="hangs and ignores SIGTERM, with a child in another session",
        ),
        pytest.param(
            ["task.fault=hang", "task.step=0", "task.rank=-1", "deadlines.start=3"],
            f"{HOST} (node rank 0): no sign of life from ranks 0, 1 within 3 s (deadlines.start), during start",
            None,
            id="never starts",
        ),
        pytest.param(
            ["task.fault=hang", "task.step=0", "task.rank=-1", "deadlines.start=3", *TWO_NODES],
            "no sign of life from ranks 0, 1 within 3 s (deadlines.start), during start\n    rank 0 on left:",
            None,
            id="never starts on two nodes: nobody is blamed",
        ),
        pytest.param(
            ["task.fault=hang", "task.step=1", "task.rank=-1", "deadlines.first_step=1"],
            f"{HOST} (node rank 0): no first step within 1 s (deadlines.first_step), during training",
            1.0,
            id="never ends its first step",
        ),
    ],
)
def test_a_hang_is_named_after_its_deadline_and_before_anything_is_stopped(
    tmp_path: Path, words: list[str], cause: str, deadline: float | None
) -> None:
    flagperf = launch(tmp_path / "run", *words)
    code, output = flagperf.wait()
    assert code == 5
    assert f"failed  {cause}\n" in output
    assert flagperf.left() == []
    if deadline is not None:
        when, first = flagperf.said()
        assert (when - flagperf.events(0)[-1].time_ms / 1000 >= deadline, first) == (True, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["Ctrl-C", "SIGTERM", "SIGHUP"])
def test_a_signal_stops_all_and_keeps_the_logs(tmp_path: Path, number: signal.Signals) -> None:
    flagperf = launch(tmp_path / "run", "max_steps=1000")
    flagperf.until_step(3)
    os.killpg(flagperf.process.pid, number)  # as a terminal does
    given, output = flagperf.wait()
    assert given == 130
    assert "Traceback" not in output
    assert flagperf.left() == []
    assert flagperf.events(1)[0].event == "SUBMIT_INFO"
    assert (flagperf.folder / "report.md").exists()


def test_nohup_keeps_a_run(tmp_path: Path) -> None:
    flagperf = launch(tmp_path / "run", "max_steps=100", ignored=signal.SIGHUP)
    flagperf.until_step(3)
    os.killpg(flagperf.process.pid, signal.SIGHUP)
    code, output = flagperf.wait()
    assert code == 0, output


def test_a_run_goes_on_where_nobody_reads_its_output(tmp_path: Path) -> None:
    """As with `flagperf … | head -1`."""
    flagperf = launch(tmp_path / "run", "max_steps=20")
    assert flagperf.process.stdout is not None
    flagperf.process.stdout.readline()
    flagperf.process.stdout.close()
    assert flagperf.process.wait(120) == 0
    assert (flagperf.folder / "report.md").exists()
    assert "Traceback" not in flagperf.run_log()


def test_a_killed_launcher_leaves_nothing_running(tmp_path: Path) -> None:
    flagperf = launch(tmp_path / "run", "-m", "seed=0,1", "max_steps=1000", "deadlines.stop=0.5")
    flagperf.until_step(3)
    os.killpg(flagperf.process.pid, signal.SIGKILL)
    flagperf.wait()
    deadline = time.monotonic() + 20
    while left := flagperf.left():
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert flagperf.events(1)[0].event == "SUBMIT_INFO"
    subprocess.run([FLAGPERF, "report", flagperf.folder], check=True, capture_output=True)
    report = (flagperf.folder / "report.md").read_text()
    assert re.findall(r"\*\*\S+,(seed=.), round 1: (\w+)\*\*\n\n- ([\w ]+)", report) == [
        ("seed=0", "INVALID", "no FINISHED from ranks 0"),
        ("seed=1", "INVALID", "not started"),
    ]


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([signal.SIGINT], id="Ctrl-C"),
        pytest.param([signal.SIGTERM], id="SIGTERM"),
        pytest.param([signal.SIGKILL], id="SIGKILL"),
        pytest.param([signal.SIGINT, signal.SIGINT], id="Ctrl-C, twice"),
    ],
)
def test_further_signals_while_stopping_leave_nothing_running(tmp_path: Path, numbers: list[signal.Signals]) -> None:
    flagperf = launch(tmp_path / "run", "task.fault=hang_deaf", "deadlines.stop=1.5")
    flagperf.until_step(3)
    for number in [signal.SIGINT, *numbers]:
        os.killpg(flagperf.process.pid, number)
        time.sleep(0.3)
    flagperf.wait()
    deadline = time.monotonic() + 20
    while left := flagperf.left():
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_configured_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        flagperf = launch(tmp_path / "run", *TORCHRUN, f"cluster.rendezvous.port={port}")
        code, output = flagperf.wait()
    assert code == 5
    assert f"failed  {HOST} (node rank 0): rendezvous port {port} is taken, during start\n" in output
    assert flagperf.left() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 80 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tmpfs")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_named_and_what_is_on_it_stays(small_disk: Path) -> None:
    flagperf = launch(small_disk / "run", "task.fault=fill")
    code, output = flagperf.wait()
    assert code == 3
    logs = small_disk / "run/workload-workload-cpux1x2/round1" / f"{HOST}_noderank0"
    assert f": disk full: no space left for {logs}, during training\n" in output
    assert "flagperf: no space is left for results; files that were written before stay\n" in output
    assert "Traceback" not in output
    assert flagperf.left() == []
    assert flagperf.events(0)[0].event == "SUBMIT_INFO"


def test_the_result_folder_is_removed(tmp_path: Path) -> None:
    flagperf = launch(tmp_path / "run")
    flagperf.until_step(2)
    shutil.rmtree(tmp_path / "run")
    code, output = flagperf.wait()
    assert (code, "Traceback" in output) == (3, False), output
    assert "flagperf: results cannot be written any more; files that were written before stay\n" in output
    assert flagperf.left() == []


def test_a_disk_without_room_is_refused(small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(40 << 20))
    code, output = launch(small_disk / "run").wait()
    assert code == 3
    assert re.search(rf"^flagperf: {HOST}: \d+ MiB are free in {small_disk}/run/\S+, logs need 64 MiB$", output, re.M)


def test_an_existing_run_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    code, output = launch(tmp_path / "run").wait()
    assert code == 2
    assert "flagperf: a run folder of this name exists already\n" in output
    assert list((tmp_path / "run").iterdir()) == []


def test_a_result_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, output = launch(tmp_path / "file" / "run").wait()
    assert code == 2
    assert "flagperf: a file has the name of this folder\n" in output
