"""`submit=true`: puts the jobs of a command into Slurm's queue, each with a run folder of its own."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from flagperf.config.files.suite import literal
from flagperf.config.files.suite import text as _quoted
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, FlagperfError
from flagperf.hosts.source import Say
from flagperf.plan.plan import make_plan
from flagperf.run import command_file
from flagperf.run import folder as run_folder
from flagperf.run.command_file import Command, merged_overrides
from flagperf.schedulers.request import Request
from flagperf.schedulers.slurm.commands import ask
from flagperf.schedulers.slurm.request import request
from flagperf.schedulers.slurm.script import SCRIPT, Submission, script
from flagperf.secret import quoted
from flagperf.user import user_path

if TYPE_CHECKING:
    from flagperf.schedulers.request import Launch

BEGINS = ("submit=false", "dry_run=false")  # of the script's own run, also where an experiment says otherwise
NAMED = ("job-name", "comment")  # options that name a job; all others are needs


@dataclass(frozen=True)
class SubmitRequest(Request):
    """Jobs of a command as Slurm jobs, each with its own run folder. The text is the scripts."""

    jobs: Sequence[JobConfig]
    command: Command
    names: Sequence[str]  # of the run folders

    @classmethod
    def of(cls, jobs: Sequence[JobConfig], command: Command) -> SubmitRequest:
        """The request for jobs. Raises ConfigError where a cluster has no queue, or the command has a secret."""
        for job in jobs:
            _check(job, command)
        name = jobs[0].run_name or f"run{datetime.now():%Y%m%d-%H%M%S}"
        several = [f"{name}-{number}" for number in range(1, len(jobs) + 1)]
        return cls(jobs, command, several if len(jobs) > 1 else [name])

    @override
    def text(self) -> str:
        pairs = zip(self.jobs, self.names, strict=True)
        folders = [user_path(job.result_dir).absolute() / name for job, name in pairs]
        return "\n".join(script(group) for group in _groups(self.jobs, folders, self.command))

    @override
    def execute(self, launch: Launch, say: Say) -> int:
        """Write the scripts and submit them.

        Raises:
            HostError: Slurm refuses a script.
        """
        unused: list[Path] = []
        try:
            for job, name in zip(self.jobs, self.names, strict=True):
                unused.append(run_folder.create(replace(job, run_name=name)))
            for group in _groups(self.jobs, tuple(unused), self.command):
                asyncio.run(_submit(group, self.command, say))
                del unused[: len(group)]
        except FlagperfError:  # the names of refused runs are free again
            for folder in unused:
                shutil.rmtree(folder)
            raise
        return 0


def _groups(jobs: Sequence[JobConfig], folders: Sequence[Path], command: Command) -> list[list[Submission]]:
    """The groups of Slurm jobs: one array if all jobs have the same needs, else one group for each job."""
    submissions = [_submission(job, folder, command, len(jobs) > 1) for job, folder in zip(jobs, folders, strict=True)]
    same_needs = all(_needs(job) == _needs(jobs[0]) for job in jobs)
    return [submissions] if same_needs else [[submission] for submission in submissions]


def _check(job: JobConfig, command: Command) -> None:
    """Refuse a job that no script can run later."""
    cluster_name = job.cluster.name
    if job.cluster.slurm is None:
        raise ConfigError(
            "this cluster has no queue", key="submit", given=cluster_name, advice="cluster=slurm submit=true"
        )
    if not job.cluster.slurm.shared:
        problem = "a run that is submitted needs its folder on the nodes"
        raise ConfigError(problem, key="cluster.slurm.shared", given=False, allowed="true")
    for text in command.overrides:
        if quoted(text) != text:
            problem, advice = "a script would keep this secret", "name a variable or a file in cluster.secrets"
            raise ConfigError(problem, key="submit", given=quoted(text), advice=advice)


def _submission(job: JobConfig, folder: Path, command: Command, of_several: bool) -> Submission:
    """The job with the command that runs only this job, in its folder."""
    values = {"result_dir": str(folder.parent), "run_name": folder.name} | ({"only": job.name} if of_several else {})
    own = [f"{key}={_quoted(literal(value))}" for key, value in values.items()]
    dirs = [word for folder in command.config_dirs for word in ("--config-dir", folder)]
    words = merged_overrides(command.overrides, [*own, *BEGINS])
    flagperf = str(Path(sys.argv[0]).absolute())
    return Submission(
        job, make_plan(job, 1, folder), folder, (flagperf, *(["-m"] if command.multirun else []), *dirs, *words)
    )


def _needs(job: JobConfig) -> list[str]:
    """The options that a job needs of Slurm."""
    assert job.cluster.slurm is not None
    options = request(job, job.cluster.slurm, "")
    return [option for option in options if option.partition("=")[0].removeprefix("--") not in NAMED]


async def _submit(group: Sequence[Submission], command: Command, say: Say) -> None:
    """Write the files of the run folders, and submit the script."""
    text = script(group)
    for submission in group:
        command_file.keep(command, submission.folder, [submission.job.mask])
        run_folder.write_configuration(submission.job, submission.folder / submission.job.name)
        (submission.folder / SCRIPT).write_text(text, encoding="utf-8")
    answer = await ask("sbatch", "--parsable", str(group[0].folder / SCRIPT))
    number = answer.strip().partition(";")[0]
    for task, submission in enumerate(group):
        job_id = number if len(group) == 1 else f"{number}_{task}"
        run_folder.note_submitted(submission.folder, run_folder.Submitted(job_id))
        say(f"submitted as Slurm job {job_id}: flagperf watch {submission.folder}")
