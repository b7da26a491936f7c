"""`dry_run=true` and `render=FOLDER` with a cluster of pods: prints or writes the manifests of a run.

flagperf starts no pods: kubectl applies the manifests, and `flagperf report … collect=true` brings the logs.
"""

from __future__ import annotations

import dataclasses
import shlex
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from flagperf import user
from flagperf.config.parts.image import STAND_IN as NO_IMAGE
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.hosts.payload import code_archive
from flagperf.hosts.source import Say
from flagperf.plan.plan import make_plan
from flagperf.plan.values import Plan
from flagperf.run import command_file
from flagperf.run import folder as run_folder
from flagperf.run.command_file import Command
from flagperf.schedulers.kubernetes.kubectl import POD_SCRIPT
from flagperf.schedulers.kubernetes.manifests import Payload, manifests
from flagperf.schedulers.kubernetes.monitors import FILE as MEASURED
from flagperf.schedulers.kubernetes.monitors import measured
from flagperf.schedulers.kubernetes.pods import job_name, labels, on_pods
from flagperf.schedulers.kubernetes.text import manifest_text
from flagperf.schedulers.request import Request
from flagperf.user import user_path

if TYPE_CHECKING:
    from flagperf.schedulers.request import Launch

MANIFESTS = "manifests.yaml"  # in the folder of a round
STAND_IN = "RUN"  # name of the run folder in a dry run without render=


@dataclass(frozen=True)
class Rendered(Request):
    """Jobs of a command as manifests, one file for each round of each job. The text has the first rounds only."""

    jobs: Sequence[JobConfig]
    command: Callable[[], Command]  # gives the command, which is kept beside the manifests

    @override
    def text(self) -> str:
        first = self.jobs[0]
        folder = Path(first.render or first.run_name or STAND_IN).absolute()
        return "\n".join(_text(job, 1, folder, None)[1] for job in self.jobs)

    @override
    def execute(self, launch: Launch, say: Say) -> int:
        """Write the manifests of all rounds of all jobs.

        Raises:
            ConfigError: no folder is given, or pods cannot run a job.
        """
        first = self.jobs[0]
        if first.render is None:
            advice = "write the manifests with render=FOLDER, or see them with dry_run=true; kubectl applies them"
            raise ConfigError("flagperf starts no pods itself", key="cluster", given=first.cluster.name, advice=advice)
        for job in self.jobs:
            _check_image(job)
        _write(self.jobs, user_path(first.render, key="render").absolute(), self.command(), say)
        return 0


def _check_image(job: JobConfig) -> None:
    """Refuse pods without an image."""
    if job.image is not None and job.image.reference == NO_IMAGE:
        key = "cluster.kubernetes.image"
        raise ConfigError(
            "pods need an image that is in a registry",
            where=job.where(key),
            key=key,
            allowed="a reference such as registry.example.com/team/flagperf:1",
            advice="build an image with what the training needs, push it, and name it (docs/kubernetes.md)",
        )


def _write(jobs: Sequence[JobConfig], target: Path, command: Command, say: Say) -> None:
    """Make the run's folder, with the manifests of each round beside its plan."""
    rounds = [(job, number) for job in jobs for number in range(1, job.repeat + 1)]
    # All texts are made before the folder: an error must leave no folder.
    texts = [_text(job, number, target, target / _file(job, number)) for job, number in rounds]
    folder = run_folder.create(dataclasses.replace(jobs[0], result_dir=str(target.parent), run_name=target.name))
    with run_folder.held(folder):
        command_file.keep(command, folder, [job.mask for job in jobs])
        for (job, number), (plan, text) in zip(rounds, texts, strict=True):
            run_folder.write_case(job, plan, folder)
            path = folder / _file(job, number)
            path.write_text(text, encoding="utf-8")
            path.with_name(MEASURED).write_text(measured(job).text(), encoding="utf-8")
            say(f"kubectl apply -f {shlex.quote(str(path))}")
    say(f"flagperf report {shlex.quote(str(folder))} collect=true    # when the pods have ended")


def _file(job: JobConfig, number: int) -> Path:
    """Path of a round's manifests in the run's folder."""
    return Path(job.name, f"round{number}", MANIFESTS)


def _text(job: JobConfig, number: int, folder: Path, file: Path | None) -> tuple[Plan, str]:
    """The plan of a round, and the text of its manifests. `file`: the future file of the text, if any."""
    owner = f"{user.name()}.{socket.gethostname()}"
    name = job_name(job, number, folder, owner)
    on_its_pods = on_pods(job, name)
    plan = make_plan(on_its_pods, number, folder)
    payload = Payload(POD_SCRIPT, code_archive(job.code_dirs))
    documents = manifests(on_its_pods, plan, name, labels(name, folder, owner), payload)
    return plan, manifest_text(on_its_pods, plan, documents, name, folder, file)
