"""The script of a submitted run: Slurm runs the launcher inside an allocation. Text only, no I/O."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.plain import comment
from flagperf.plan.dry_run import start_line
from flagperf.plan.values import Plan
from flagperf.schedulers.slurm.request import PREFIX, SUBMITTED, request

SCRIPT = "job.sbatch"  # in the folder of the run
TASK = "SLURM_ARRAY_TASK_ID"


@dataclass(frozen=True)
class Submission:
    """One job of a command as a Slurm job, or as a task of an array."""

    job: JobConfig
    plan: Plan
    folder: Path  # of the run
    argv: tuple[str, ...]  # the command that runs the job in the folder


def script(submissions: Sequence[Submission]) -> str:
    """The script of one job, or of an array of jobs with the same needs."""
    first = submissions[0]
    slurm = first.job.cluster.slurm
    assert slurm is not None
    several = len(submissions) > 1
    options = request(first.job, slurm, SUBMITTED)
    if several:  # one name for all tasks
        options[0] = f"--job-name={PREFIX}-{first.folder.name.rpartition('-')[0]}"
    output = first.folder.parent if several else first.folder
    log = f"{output}/slurm-%{'A_%a' if several else 'j'}.log"
    array = [f"--array=0-{len(submissions) - 1}"] if several else []
    names = ", ".join(submission.job.name for submission in submissions)
    lines = [
        "#!/bin/bash",
        comment(names),
        f"# nodes: {first.job.nnodes}, ranks on each: {first.job.nproc}",
        "#",
        "# What is asked of Slurm. Requeued, the launcher would find its folder taken.",
        *map(_directive, [*options, *array, "--no-requeue", f"--output={log}"]),
        "",
        "# The launcher runs on the first node. It finds the nodes by SLURM_JOB_ID, reaches each by one srun, and",
        "# starts on the first of them, with its name, address and port, and alike on the others:",
        comment(f"    {start_line(first.plan.nodes[0])}"),
        "",
        f"cd {shlex.quote(str(Path.cwd()))} || exit",
    ]
    if not several:
        return "\n".join([*lines, f"exec {_line(first)}", ""])
    cases = (f"{number}) exec {_line(submission)} ;;" for number, submission in enumerate(submissions))
    return "\n".join([*lines, f'case "${TASK}" in', *cases, "esac", ""])


def _directive(option: str) -> str:
    """An option as a line of the script. What follows a line break would be a command of the script."""
    if "\n" in option or "\r" in option:
        problem = "sbatch reads options from lines of a script, and this one has a line break"
        raise ConfigError(problem, where="the options of Slurm", given=option)
    return f"#SBATCH {shlex.quote(option)}"


def _line(submission: Submission) -> str:
    return shlex.join((sys.executable, *submission.argv))
