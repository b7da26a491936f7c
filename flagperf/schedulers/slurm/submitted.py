"""`submit=true`: puts the jobs of a command into Slurm's queue, each with a run folder of its own."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, FlagperfError
from flagperf.hosts.source import Say
from flagperf.plan.plan import make_plan
from flagperf.run import command_file
from flagperf.run import folder as run_folder
from flagperf.run.command_file import Command, again
from flagperf.schedulers.slurm.commands import ask
from flagperf.schedulers.slurm.request import request
from flagperf.schedulers.slurm.script import SCRIPT, Submission, script
from flagperf.secret import quoted

if TYPE_CHECKING:
    from flagperf.schedulers.request import Launch

NAMED = ("job-name", "comment")  # options that say which job it is, not what it needs


@dataclass(frozen=True)
class Submitted:
    """The jobs of a command as jobs of Slurm, each with a run folder of its own. The text is that of the scripts."""

    jobs: Sequence[JobConfig]
    command: Command
    names: Sequence[str]  # of the run folders

    @classmethod
    def of(cls, jobs: Sequence[JobConfig], command: Command) -> Submitted:
        """Raises ConfigError where a cluster has no queue, or the command cannot be kept in a file."""
        for job in jobs:
            _check(job, command)
        name = jobs[0].run_name or f"run{datetime.now():%Y%m%d-%H%M%S}"
        several = [f"{name}-{number}" for number in range(1, len(jobs) + 1)]
        return cls(jobs, command, several if len(jobs) > 1 else [name])

    def text(self) -> str:
        pairs = zip(self.jobs, self.names, strict=True)
        folders = [Path(job.result_dir).expanduser().absolute() / name for job, name in pairs]
        return "\n".join(script(group) for group in _groups(self.jobs, folders, self.command))

    def execute(self, _: Launch, say: Say) -> int:
        """Write the scripts and submit them.

        Raises:
            HostError: Slurm refuses it.
        """
        unused: list[Path] = []
        try:
            for job, name in zip(self.jobs, self.names, strict=True):
                unused.append(run_folder.create(replace(job, run_name=name)))
            for group in _groups(self.jobs, tuple(unused), self.command):
                asyncio.run(_submit(group, self.command, say))
                del unused[: len(group)]
        except FlagperfError:  # what was refused did not happen: the name is free again
            for folder in unused:
                shutil.rmtree(folder)
            raise
        return 0


def _groups(jobs: Sequence[JobConfig], folders: Sequence[Path], command: Command) -> list[list[Submission]]:
    """The jobs as those of Slurm: one array of all that need the same nodes, else each for itself."""
    made = [_submission(job, folder, command, len(jobs) > 1) for job, folder in zip(jobs, folders, strict=True)]
    alike = all(_needs(job) == _needs(jobs[0]) for job in jobs)
    return [made] if alike else [[one] for one in made]


def _check(job: JobConfig, command: Command) -> None:
    """Refuse what no script can do later."""
    given = job.cluster.name
    if job.cluster.slurm is None:
        raise ConfigError("this cluster has no queue", key="submit", given=given, advice="cluster=slurm submit=true")
    if not job.cluster.slurm.shared:
        problem = "a run that is submitted needs its folder on the nodes"
        raise ConfigError(problem, key="cluster.slurm.shared", given=False, allowed="true")
    for override in command.overrides:
        if quoted(override) != override:
            problem, advice = "a script would keep this secret", "name a variable or a file in cluster.secrets"
            raise ConfigError(problem, key="submit", given=quoted(override), advice=advice)


def _submission(job: JobConfig, folder: Path, command: Command, of_several: bool) -> Submission:
    """The job with the command that runs it alone, in its folder."""
    only = [f"only={_text(job.name)}"] if of_several else []
    place = [f"result_dir={_text(str(folder.parent))}", f"run_name={_text(folder.name)}", *only]
    dirs = [word for one in command.config_dirs for word in ("--config-dir", one)]
    kept = [override for override in command.overrides if override.partition("=")[0] not in ("submit", "dry_run")]
    words = again(kept, place)
    flagperf = str(Path(sys.argv[0]).absolute())
    return Submission(
        job, make_plan(job, 1, folder), folder, (flagperf, *(["-m"] if command.multirun else []), *dirs, *words)
    )


def _text(value: str) -> str:
    """A value of the command line that Hydra takes as it is."""
    if re.fullmatch(r"[\w./+-]+", value):
        return value
    escaped = value.replace('"', r"\"")
    return f'"{escaped}"'


def _needs(job: JobConfig) -> list[str]:
    """What the job asks of Slurm."""
    assert job.cluster.slurm is not None
    options = request(job, job.cluster.slurm, "")
    return [option for option in options if option.partition("=")[0].removeprefix("--") not in NAMED]


async def _submit(group: Sequence[Submission], command: Command, say: Say) -> None:
    """Write the script and what the run folders hold before they begin, and give it to Slurm."""
    text = script(group)
    for one in group:
        command_file.keep(command, one.folder, [one.job.mask])
        run_folder.write_configuration(one.job, one.folder / one.job.name)
        (one.folder / SCRIPT).write_text(text, encoding="utf-8")
    answer = await ask("sbatch", "--parsable", str(group[0].folder / SCRIPT))
    number = answer.strip().partition(";")[0]
    for task, one in enumerate(group):
        where = number if len(group) == 1 else f"{number}_{task}"
        run_folder.note_submitted(one.folder, run_folder.Submitted(where))
        say(f"submitted as Slurm job {where}: flagperf watch {one.folder}")
