"""flagperf on nodes of a real Slurm cluster: trainings, what happens to an allocation, and a user's whole path."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from flagperf_run import Done
from slurm_lab import SlurmLab
from slurm_user import NAME, STEPPING, TRAINING, SlurmUser, job_of, stepping, until

from flagperf.hosts.leftovers import this_owner


@contextlib.contextmanager
def at_a_terminal(user: SlurmUser, *words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A command on a terminal, with the end from which its screen is read. Its errors come apart."""
    screen, terminal = pty.openpty()
    command, env = [str(Path(sys.executable).with_name("flagperf")), *words], {**os.environ, **user.lab.env}
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, text=True, env=env) as process:
        os.close(terminal)
        try:
            yield process, screen
        finally:
            process.kill()
            os.close(screen)


@pytest.mark.slow
@pytest.mark.torch
def test_a_training_on_two_nodes(slurm: SlurmLab, tmp_path: Path) -> None:
    done = SlurmUser(slurm, tmp_path).run(*TRAINING, "max_steps=6", "monitor.interval=0.5")
    assert done.exit_code == 0, done.output
    assert done.result(NAME)["verdict"] == "VALID"
    folder = done.folder / NAME / "round1"
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"n1_noderank0", "n2_noderank1"}
    monitors = (f"{name}_monitor.log" for name in ("cpu", "host", "mem", "pwr"))
    logs = {*monitors, "start_pytorch_task.log", "sys_info.log"}
    assert {path.name for path in (folder / "n2_noderank1").iterdir()} == {*logs, "rank1.out.log"}
    assert (folder / "n2_noderank1" / "cpu_monitor.log").stat().st_size > 0
    assert yaml.safe_load((folder / "config.yaml").read_text())["cluster"]["nodes"][1]["name"] == "n2"
    assert re.search(r"Slurm job \d+: n1, n2", done.log)
    assert slurm.queue() == []


def cancelled(lab: SlurmLab) -> None:
    lab.run("scancel", job_of(lab))


def set_down(lab: SlurmLab) -> None:
    lab.run("scontrol", "update", "nodename=n2", "state=down", "reason=broken")


def daemon_killed(lab: SlurmLab) -> None:
    lab.kill("n2")


def preempted(lab: SlurmLab) -> None:
    lab.run("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")


def out_of_time(lab: SlurmLab) -> None:
    lab.run("scontrol", "update", f"jobid={job_of(lab)}", "endtime=now+1")  # the least limit is a minute


LOST = "lost allocation: "
ENDINGS = {
    "scancel": (cancelled, LOST + r"it was cancelled \(scancel\) \(CANCELLED\)"),
    "node down": (set_down, r"n2 \(node rank 1\): " + LOST + r"Slurm calls n2 down.*broken.* \(job \d+: NODE_FAIL\)"),
    "slurmd killed": (daemon_killed, r"n2 \(node rank 1\): " + LOST + "Slurm calls n2 down"),
    "preempted": (preempted, LOST + "it was preempted by another job"),
    "time limit": (out_of_time, LOST + r"its time limit of \S+ was reached"),
}
QUICK = ("scancel", "node down")  # the others wait for Slurm's own clocks


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ENDINGS]
)
def test_a_lost_allocation_is_named_and_nothing_stays(slurm: SlurmLab, tmp_path: Path, name: str) -> None:
    fault, line = ENDINGS[name]
    user = SlurmUser(slurm, tmp_path)
    process = user.start(*STEPPING)
    until(lambda: stepping(user), "a step")
    fault(slurm)
    done = user.end(process)
    assert done.exit_code == 5, done.output
    assert re.search(f"failed: .*{line}", done.output), done.output
    assert stepping(user)  # the logs are kept
    until(lambda: slurm.queue() == [], "the queue is empty", 30)


def test_a_ranks_own_exit_status_is_told(slurm: SlurmLab, tmp_path: Path) -> None:
    done = SlurmUser(slurm, tmp_path).run(*STEPPING, scenario="exit@1")
    assert done.exit_code == 5, done.output
    assert done.result(NAME)["failure"]["exit_status"] == 7
    assert slurm.queue() == []


@pytest.mark.slow
@pytest.mark.torch
def test_nodes_with_files_of_their_own_get_all_and_keep_nothing(slurm: SlurmLab, tmp_path: Path) -> None:
    user = SlurmUser(slurm, tmp_path, shared=False)
    python = f"runtime.python={sys.executable}"
    done = user.run(*TRAINING, "max_steps=6", python, "cluster.work_dir=/srv/flagperf", "checkpoint_freq=5")
    assert done.exit_code == 0, done.output
    assert done.result(NAME)["verdict"] == "VALID"
    folder = done.folder / NAME / "round1"
    assert "FINISHED" in (folder / "n2_noderank1" / "rank1.out.log").read_text()
    assert list((folder / "checkpoint").iterdir())
    assert slurm.run("srun", "--nodes=2", "ls", "-A", "/srv/flagperf") == "sample\n" * 2  # data that the next run needs


def test_nodes_that_share_a_folder_unsaid_are_named(slurm: SlurmLab, tmp_path: Path) -> None:
    done = SlurmUser(slurm, tmp_path, shared=False).run(*STEPPING, f"cluster.work_dir={tmp_path}/work")
    assert done.exit_code == 2, done.output
    told = "two nodes have one work_dir\n  where:   hosts n1 and n2"
    assert told in done.output, done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "why"),
    [
        pytest.param(
            "nnodes=3",
            # PartitionNodeLimit or PartitionConfig: Slurm says either
            "Slurm can never satisfy the request: the partition ",
            id="too many nodes",
        ),
        pytest.param(
            "+cluster.slurm.options.cpus-per-task=99",
            "Slurm can never satisfy the request: the partition has no such nodes: ",
            id="too much of a node",
        ),
        pytest.param("cluster.slurm.partition=night", "invalid partition specified: night", id="no such partition"),
    ],
)
def test_nodes_that_slurm_never_gives_are_not_waited_for(slurm: SlurmLab, tmp_path: Path, word: str, why: str) -> None:
    done = SlurmUser(slurm, tmp_path).run(*STEPPING, word)
    assert done.exit_code == 3, done.output
    assert f"failed: Slurm: no nodes: {why}" in done.output and "is queued" not in done.output, done.output
    assert slurm.queue() == []


@pytest.mark.parametrize("queued", [True, False], ids=["queued", "running"])
def test_ctrl_c_leaves_nothing(slurm: SlurmLab, tmp_path: Path, queued: bool) -> None:
    user = SlurmUser(slurm, tmp_path)
    if queued:
        slurm.run("sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 100")
        until(lambda: any("RUNNING" in job for job in slurm.queue()), "the job before ours")
    process = user.start(*STEPPING)
    log = user.home / "result" / "run" / "flagperf_run.log"
    if queued:
        until(lambda: log.exists() and "is queued: position 1 of 1 in main" in log.read_text(), "the queue is shown")
    else:
        until(lambda: stepping(user), "a step")
    os.kill(process.pid, signal.SIGINT)
    done = user.end(process)
    assert done.exit_code == 130, done.output
    assert "interrupted: interrupted" not in done.output and "failed: " not in done.output
    assert ("interrupted while waiting for nodes" in done.output) == queued
    assert len(slurm.queue()) == queued, done.output


@pytest.mark.slow
def test_a_launcher_that_is_killed_leaves_nothing(slurm: SlurmLab, tmp_path: Path) -> None:
    user = SlurmUser(slurm, tmp_path)
    process = user.start(*STEPPING)
    until(lambda: stepping(user), "a step")
    os.kill(process.pid, signal.SIGKILL)
    user.end(process)
    until(lambda: slurm.queue() == [], "the queue is empty", 30)
    ranks = subprocess.run(["pgrep", "-f", f"import steps.*{user.home}"], capture_output=True, text=True)
    assert ranks.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "status", "said"),
    [
        pytest.param({"wrapper": ["env", "MINE={image}"]}, 0, "MINE=its image\n", id="apptainer"),
        pytest.param({"srun": {"no-such-option": "{image}"}}, 3, "srun ended: unrecognized option", id="pyxis"),
    ],
)
def test_containers_of_the_site_are_started(
    slurm: SlurmLab, tmp_path: Path, runtime: dict[str, Any], status: int, said: str
) -> None:
    """Neither is here: `env` stands for apptainer, and srun refuses what it would know with pyxis."""
    user, words = SlurmUser(slurm, tmp_path), [word for word in STEPPING if not word.startswith("max_steps")]
    words.append("+vendor.environment.MINE=outside")
    own = {"title": "a container", "kind": "process", "python": sys.executable, "image": "its image"}
    user.write("runtime/own", {**own, **runtime})
    done = user.run(*words, "max_steps=2", "runtime=own")
    assert done.exit_code == status, done.output
    logs = (done.folder / NAME / "round1").glob("*/start_*.log")
    assert said in done.output + "".join(log.read_text() for log in logs)
    assert not (done.folder / "code").exists()


@pytest.mark.slow
def test_jobs_of_a_sweep_share_an_allocation_until_one_fails(slurm: SlurmLab, tmp_path: Path) -> None:
    words = [word for word in STEPPING if not word.startswith("max_steps")]
    done = SlurmUser(slurm, tmp_path).run("-m", *words, "max_steps=2,1,900", "repeat=2", scenario="exit")
    assert done.exit_code == 5, done.output
    assert len(set(re.findall(r"Slurm job (\d+): n1, n2", done.log))) == 1, done.log
    assert slurm.queue() == []


@pytest.mark.slow
def test_in_an_allocation_of_the_users_own_its_nodes_are_used(slurm: SlurmLab, tmp_path: Path) -> None:
    slurm.run("salloc", "--no-shell", "--nodes=2", "--exclusive")
    job, words = job_of(slurm), [word for word in STEPPING if not word.startswith("max_steps")]
    done = SlurmUser(slurm, tmp_path).run(*words, "max_steps=2", SLURM_JOB_ID=job)
    assert done.exit_code == 0, done.output
    assert f"Slurm job {job}, which exists already: n1, n2" in done.output
    assert slurm.queue() == [f"{job} RUNNING"]  # it is not ours to end


def test_a_submitted_run_is_followed_from_its_folder(slurm: SlurmLab, tmp_path: Path) -> None:
    user = SlurmUser(slurm, tmp_path)
    slurm.run("sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    user.write("experiment/queued", {"submit": True}, "# @package _global_\n")  # the job of the script is not
    words = [word for word in STEPPING if not word.startswith("max_steps")]
    shown = user.run(*words, "max_steps=2", "+submit=true", "dry_run=true")
    assert shown.exit_code == 0 and not shown.folder.exists()
    user.words = ("+experiment=[steps,queued]",)
    shown = user.run(*words, "max_steps=2", "dry_run=true")
    done = user.run(*words, "max_steps=2")
    assert done.exit_code == 0, done.output
    assert (done.folder / "job.sbatch").read_text().strip() == shown.output.strip()
    number = re.search(r"submitted as Slurm job (\d+): flagperf watch", done.output)
    assert number and f"has not begun; it is Slurm job {number[1]}" in user.run("watch", str(done.folder)).output
    until(lambda: slurm.queue() == [], "the job has ended", 60)
    assert "has ended" in user.run("watch", str(done.folder)).output
    assert done.result(NAME)["status"] == "finished", (done.folder / f"slurm-{number[1]}.log").read_text()
    assert user.run("report", str(done.folder)).exit_code == 0


@pytest.mark.slow
def test_the_folder_of_a_submitted_run_is_its_jobs_alone(slurm: SlurmLab, tmp_path: Path) -> None:
    user = SlurmUser(slurm, tmp_path)
    refused = user.run(*STEPPING, "submit=true", "cluster.slurm.partition=night")
    assert refused.exit_code == 3 and "invalid partition" in refused.output.lower(), refused.output
    assert not refused.folder.exists()
    slurm.run("sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 100")
    assert user.run(*STEPPING, "submit=true").exit_code == 0
    kept = (refused.folder / "submitted.json").read_text()
    for words in (["submit=true"], []):
        again = user.run(*STEPPING, *words)
        assert again.exit_code == 2 and "a run folder of this name exists already" in again.output, again.output
    assert (refused.folder / "submitted.json").read_text() == kept
    assert len(slurm.queue()) == 2


SWEEP = [pytest.param(False, id="a job"), pytest.param(True, id="a task of an array", marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("sweep", SWEEP)
def test_a_submitted_run_that_is_cancelled_before_it_begins_is_told(
    slurm: SlurmLab, tmp_path: Path, sweep: bool
) -> None:
    user = SlurmUser(slurm, tmp_path)
    slurm.run("sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 100")
    words = ["-m", *STEPPING, "lr=0.1,0.2"] if sweep else STEPPING
    done = user.run(*words, "submit=true")
    job, folder = re.findall(r"submitted as Slurm job (\S+): flagperf watch (\S+)", done.output)[-1]
    assert f"has not begun; it is Slurm job {job}\nit is queued: position " in user.run("watch", folder).output
    report = user.run("report", folder)
    assert report.exit_code == 2
    assert f"this run has not begun\n  where:   command line\n  given:   Slurm job {job} is queued: " in report.output
    with at_a_terminal(user, "watch", folder) as (followed, screen):
        assert os.read(screen, 1)
        slurm.run("scancel", job)
        why = (
            "Slurm does not know it any more; a task of an array" if sweep else "it was cancelled (scancel) (CANCELLED)"
        )
        told = f"flagperf: Slurm job {job}: the run never began: {why}"
        with contextlib.suppress(OSError):  # the terminal is closed
            while os.read(screen, 4096):
                pass
        assert followed.wait(60) == 3
        assert followed.stderr and followed.stderr.read().startswith(told)
    assert user.run("watch", folder).output.startswith(told)
    assert user.run("report", folder).exit_code == 3


@pytest.mark.slow
def test_the_final_state_of_a_cancelled_run_is_asked_for_by_its_report(slurm: SlurmLab, tmp_path: Path) -> None:
    """Its launcher ends with the job, before Slurm has that state. What a report has told stays."""
    user = SlurmUser(slurm, tmp_path)
    done = user.run(*STEPPING, "submit=true")
    until(lambda: stepping(user), "a step")
    slurm.run("scancel", job_of(slurm))
    until(lambda: "report.html" in {path.name for path in done.folder.iterdir()}, "the run has ended")
    assert done.result(NAME)["failure"]["cause"] == "lost allocation: it is being ended (COMPLETING)"
    until(lambda: slurm.queue() == [], "Slurm has ended the job")  # its last state is known only then
    why = "lost allocation: it was cancelled (scancel) (CANCELLED), during "
    for env in ({}, {"PATH": str(Path(sys.executable).parent)}):  # the second time without Slurm's commands
        report = user.run("report", str(done.folder), **env)
        assert why in report.output and "COMPLETING" not in report.output, report.output


def test_a_request_that_is_never_met_is_told_of_a_submitted_run(slurm: SlurmLab, tmp_path: Path) -> None:
    user = SlurmUser(slurm, tmp_path)
    done = user.run(*STEPPING, "nnodes=3", "submit=true")
    for verb in ("watch", "report"):
        never = f"{verb} tells the reason"
        until(
            lambda verb=verb: "the run never begins: the partition " in user.run(verb, str(done.folder)).output, never
        )


@pytest.mark.slow
def test_a_sweep_is_submitted_as_an_array(slurm: SlurmLab, tmp_path: Path) -> None:
    words = [word for word in STEPPING if not word.startswith("max_steps")]
    done = SlurmUser(slurm, tmp_path).run("-m", *words, "max_steps=1,2", "submit=true")
    assert done.exit_code == 0, done.output
    until(lambda: slurm.queue() == [], "the array has ended", 90)
    names = {1: f"{NAME},max_steps=1", 2: f"{NAME},max_steps=2"}
    found = {number: Done(0, "", tmp_path / "result" / f"run-{number}").result(names[number]) for number in names}
    assert {number: result["status"] for number, result in found.items()} == {1: "finished", 2: "finished"}


@pytest.mark.slow
def test_the_end_of_a_submitted_runs_time_is_named(slurm: SlurmLab, tmp_path: Path) -> None:
    user = SlurmUser(slurm, tmp_path)
    done = user.run(*STEPPING, "submit=true")
    until(lambda: stepping(user), "a step")
    out_of_time(slurm)
    until(lambda: slurm.queue() == [], "its time is over", 90)
    assert re.search(r"lost allocation: its time limit of \S+ was reached", done.log), done.log
    assert done.result(NAME)["status"] == "failed"


def test_doctor_and_clean(slurm: SlurmLab, tmp_path: Path) -> None:
    user = SlurmUser(slurm, tmp_path)
    dead = "flagperf " + this_owner().rpartition(" ")[0] + " 1"  # this process, had it begun at another time
    slurm.run("salloc", "--no-shell", "--nodes=1", f"--comment={dead}")
    slurm.run("salloc", "--no-shell", "--nodes=1", "--comment=somebody else's")
    job, other = sorted((line.split()[0] for line in slurm.queue()), key=int)  # 9 before 10
    doctor = user.run("doctor", "nnodes=2")
    assert doctor.exit_code == 0, doctor.output
    rows = {line.split()[1]: line.split()[2] for line in doctor.output.splitlines() if line.startswith("Slurm ")}
    assert rows == {
        **dict.fromkeys(("controller", "munge"), "ok"),
        **dict.fromkeys(("devices", "container"), "skipped"),
        **dict.fromkeys(("partition", "files", "leftovers"), "warning"),
    }
    assert f"jobs of dead runs: {job}" in doctor.output
    few = user.run("doctor", "nnodes=3", "cluster.slurm.gpus_per_node=3")
    assert few.exit_code == 3
    assert "main has 2 nodes in order of 2 (nnodes=3)" in few.output and "0 nodes have 3 devices" in few.output
    none = user.run("doctor", "cluster.slurm.partition=night")
    assert "no such partition" in none.output and "allowed: main, urgent" in none.output
    cleaned = user.run("clean", "cluster=site")
    assert f"job {job}" in cleaned.output and cleaned.exit_code == 0
    until(lambda: slurm.queue() == [f"{other} RUNNING"], "the dead run's job is cancelled")
