"""What is asked of Slurm for a job: options of salloc and sbatch, of a node's step, and the script of a submission."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example import example_job

from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.platform import RuntimeSettings, Vendor
from flagperf.config.schema.schedulers import Slurm
from flagperf.errors import ConfigError
from flagperf.plan.plan import make_plan
from flagperf.run.command_file import Command
from flagperf.schedulers.slurm.channel import Channel
from flagperf.schedulers.slurm.job import SlurmJob, ending
from flagperf.schedulers.slurm.never_satisfiable import never_satisfiable
from flagperf.schedulers.slurm.request import request, step_options
from flagperf.schedulers.slurm.script import Submission, script
from flagperf.schedulers.slurm.submit import SubmitRequest

OURS = ["--job-name=flagperf-sums-pytorch-cpux2x2", "--comment=flagperf me", "--nodes=2"]
CHIP = Vendor("acme", "Acme", "acme", "acme", None, None, device_files="/dev/acme*")


@pytest.mark.parametrize(
    ("slurm", "vendor", "options"),
    [
        pytest.param({}, None, ["--exclusive"], id="as the site has it"),
        pytest.param({}, CHIP, ["--gpus-per-node=2", "--exclusive"], id="devices are counted"),
        pytest.param({"gpus_per_node": 0}, CHIP, ["--exclusive"], id="none are asked for"),
        pytest.param({"gres": "npu:8"}, CHIP, ["--gres=npu:8", "--exclusive"], id="by another name"),
        pytest.param(
            {
                "partition": "gpu",
                "account": "bench",
                "qos": "high",
                "time": "02:00:00",
                "constraint": "ib",
                "exclusive": False,
                "options": {"reservation": "now", "requeue": True, "mail-type": None, "hold": False},
            },
            None,
            [
                *("--partition=gpu", "--account=bench", "--qos=high", "--time=02:00:00", "--constraint=ib"),
                *("--reservation=now", "--requeue"),
            ],
            id="all that can be said",
        ),
    ],
)
def test_nodes_are_asked_for(slurm: dict[str, Any], vendor: Vendor | None, options: list[str]) -> None:
    job = example_job(nnodes=2, **({"vendor": vendor} if vendor else {}))
    assert request(job, Slurm(**slurm), "me") == OURS + options


@pytest.mark.parametrize(
    ("slurm", "python", "further"),
    [
        pytest.param(Slurm(), sys.executable, [f"--chdir={Path.cwd()}"], id="with this machine's files"),
        pytest.param(Slurm(shared=False), "python3", ["--chdir=/"], id="with files of its own"),
        pytest.param(Slurm(step={"network": "ib"}), sys.executable, ["--network=ib"], id="as the site wants it"),
        pytest.param(
            Slurm(step={"container-image": "i.sqsh"}), "python3", ["--container-image=i.sqsh"], id="in a container"
        ),
    ],
)
def test_a_node_is_reached_by_one_step(slurm: Slurm, python: str, further: list[str]) -> None:
    argv = Channel("n7", SlurmJob(12, ["n7"]), slurm).argv
    assert {"--jobid=12", "--nodelist=n7", "--nodes=1", "--ntasks=1", "--overlap", *further} <= set(argv)
    assert argv[argv.index("-I") - 1] == python


def test_the_runtime_and_the_site_say_more_of_the_step() -> None:
    options = {"container-image": "{image}", "container-mounts": "{data}:{data}", "container-name": "a"}
    runtime = RuntimeSettings("pyxis", "process", image="i.sqsh", srun=options)
    actual = step_options(example_job(runtime=runtime), Slurm(step={"container-name": "b"}))
    assert actual == {"container-image": "i.sqsh", "container-mounts": "/data:/data", "container-name": "b"}


def submission(name: str) -> Submission:
    cluster = Cluster("site", "nodes of Slurm", slurm=Slurm(time="30"))
    job = replace(example_job(nnodes=2, config={"cluster": {}}), cluster=cluster)
    folder = Path("/res", name)
    return Submission(job, make_plan(job, 1, folder), folder, ("flagperf", "cluster=site", f"run_name={name}"))


def test_a_job_is_submitted_by_a_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    case, node = "/res/run1/sums-pytorch-cpux2x2/round1", "node0_noderank0"
    ranks = f"/bin/sh {case}/environment.sh python3 --nnodes 2 --nproc 2 --rank 0 --to node0:29500 {case}/config.yaml"
    assert (
        script([submission("run1")])
        == f"""\
#!/bin/bash
# sums-pytorch-cpux2x2
# nodes: 2, ranks on each: 2
#
# What is asked of Slurm. Requeued, the launcher would find its folder taken.
#SBATCH --job-name=flagperf-sums-pytorch-cpux2x2
#SBATCH '--comment=flagperf submitted'
#SBATCH --nodes=2
#SBATCH --time=30
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --output=/res/run1/slurm-%j.log

# The launcher runs on the first node. It finds the nodes by SLURM_JOB_ID, reaches each by one srun, and
# starts on the first of them, with its name, address and port, and alike on the others:
#     FLAGPERF_LOG_DIR={case}/{node} PYTHONFAULTHANDLER=1 {ranks}

cd {tmp_path} || exit
exec {sys.executable} flagperf cluster=site run_name=run1
"""
    )


COMMAND = "touch made"
BROKEN = {"a comment": "x\n", "a quote": "x'\n", "a carriage return": "x\r\n"}


@pytest.mark.parametrize("name", BROKEN.values(), ids=BROKEN.keys())
def test_a_name_with_line_breaks_is_no_command_of_the_script(name: str, tmp_path: Path) -> None:
    """The script's comments have names and the words of the ranks' command; its options are lines."""
    name = f"{name}{COMMAND}\n#"
    one = submission("run1")
    other = replace(one, plan=make_plan(one.job, 1, Path("/res", name)), argv=("true",))  # in its comment
    text = script([other]).replace(sys.executable, "true")
    subprocess.run(["bash"], input=text, text=True, cwd=tmp_path, check=True)
    assert (COMMAND in text, list(tmp_path.iterdir())) == (True, [])
    for refused in (replace(one, folder=Path("/res", name)), replace(one, job=replace(one.job, case=name))):
        with pytest.raises(ConfigError, match="this one has a line break"):
            script([refused])


@pytest.mark.parametrize("word", ["submit=true", "+submit=true", "++submit=true", "+experiment=queued"])
def test_the_run_of_a_script_is_not_submitted_again(word: str) -> None:
    """Whatever set submit: the command line comes after an experiment."""
    job = replace(submission("x").job, result_dir="/res", run_name="it's\\")
    command = Command(("cluster=site", "+dry_run=true", word, "+run_name=first"), False, (), "/", 0.0)
    line = SubmitRequest.of([job], command).text().splitlines()[-1]
    kept = [word] if word.startswith("+experiment") else []
    own = ["result_dir=/res", r"run_name='it\'s\\'", "submit=false", "dry_run=false"]
    assert shlex.split(line)[3:] == ["cluster=site", *kept, *own]


def test_jobs_of_a_sweep_are_submitted_as_an_array() -> None:
    lines = script([submission("run-1"), submission("run-2")]).splitlines()
    asked = {"--job-name=flagperf-run", "--array=0-1", "--output=/res/slurm-%A_%a.log"}
    assert {f"#SBATCH {option}" for option in asked} <= set(lines)
    assert lines[-4:] == [
        'case "$SLURM_ARRAY_TASK_ID" in',
        f"0) exec {sys.executable} flagperf cluster=site run_name=run-1 ;;",
        f"1) exec {sys.executable} flagperf cluster=site run_name=run-2 ;;",
        "esac",
    ]


@pytest.mark.parametrize(
    ("state", "fields", "why"),
    [
        ("TIMEOUT", {"TimeLimit": "00:10:00"}, "its time limit of 00:10:00 was reached (TIMEOUT)"),
        ("PREEMPTED", {}, "it was preempted by another job (PREEMPTED)"),
        ("CANCELLED by ann", {}, "it was cancelled (scancel) (CANCELLED by ann)"),
        ("FAILED", {}, "it ended (FAILED)"),
        ("", {}, "Slurm does not know it any more"),
    ],
)
def test_why_a_job_ended(state: str, fields: dict[str, str], why: str) -> None:
    assert ending(state, fields) == why


NEVER = {
    "PartitionNodeLimit": "the partition does not give so many nodes to one job",
    "PartitionTimeLimit": "the partition does not give nodes for so long",
    "PartitionConfig": "the partition has no such nodes: too few, or too small ones",
    "BadConstraints": "no nodes have what is asked for together",
    "AccountNotAllowed": "the account may not be used there",
    "QOSNotAllowed": "the QOS may not be used there",
    "ReservationDeleted": "the reservation is gone",
    "DependencyNeverSatisfied": "the job waits for another job that did not end as asked for",
    **dict.fromkeys(
        ("AssocMaxWallDurationPerJobLimit", "QOSMaxNodePerJobLimit", "QOSMaxGRESPerNode", "QOSMinGRES"),
        "the job does not keep to a limit that the account or the QOS sets for each job",
    ),
    **dict.fromkeys(
        ("Resources", "Priority", "JobHeldUser", "PartitionDown", "QOSMaxNodePerUserLimit", "AssocGrpGRES")
    ),
}


@pytest.mark.parametrize(("reason", "never"), NEVER.items(), ids=NEVER.keys())
def test_reasons_that_no_waiting_changes(reason: str, never: str | None) -> None:
    actual = never_satisfiable(f"is queued: position 1 of 1 in main, reason {reason}, estimated start unknown")
    assert (actual and actual.sentence) == (never and f"{never} ({reason})")
