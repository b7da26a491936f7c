"""`dry_run=true` and `render=FOLDER` with a cluster of pods: the manifests of a run, printed or written.

flagperf starts no pods itself: kubectl applies what is written, and `flagperf report … collect=true` brings the logs.
"""

from __future__ import annotations

import dataclasses
import getpass
import shlex
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from flagperf.config.files.user_path import user_path
from flagperf.config.parts.image import STAND_IN as NO_IMAGE
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.hosts.kubectl import POD_SCRIPT
from flagperf.hosts.payload import code_archive
from flagperf.plan.manifest_text import manifest_text
from flagperf.plan.manifests import Payload, manifests
from flagperf.plan.plan import make_plan
from flagperf.plan.pods import job_name, labels, on_pods
from flagperf.plan.values import Plan
from flagperf.run import command_file
from flagperf.run import folder as run_folder
from flagperf.run.command_file import Command

MANIFESTS = "manifests.yaml"  # in the folder of a round
STAND_IN = "RUN"  # in what a dry run prints, for the folder that render= would name


def render(jobs: Sequence[JobConfig], command: Callable[[], Command]) -> int:
    """Print the manifests, or write those of all rounds of all jobs. Returns the exit code.

    Args:
        command: gives what was typed, which is kept beside them.

    Raises:
        ConfigError: nobody asks for either, or the cluster has no pods; or something of a run cannot be had in pods.
    """
    first = jobs[0]
    if first.cluster.kubernetes is None:
        allowed = "null, or a cluster of pods: cluster=kubernetes, or a file of yours with kubernetes: in it"
        raise ConfigError("this cluster has no manifests", key="render", given=first.render, allowed=allowed)
    if first.dry_run:
        folder = Path(first.render or first.run_name or STAND_IN).absolute()
        print("\n".join(_text(job, 1, folder, None)[1] for job in jobs))
        return 0
    if first.render is None:
        advice = "write the manifests with render=FOLDER, or see them with dry_run=true; kubectl applies them"
        raise ConfigError("flagperf starts no pods itself", key="cluster", given=first.cluster.name, advice=advice)
    for job in jobs:
        _check_image(job)
    _write(jobs, user_path(first.render, key="render").absolute(), command())
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


def _write(jobs: Sequence[JobConfig], target: Path, command: Command) -> None:
    """Make the run's folder, with the manifests of each round beside its plan."""
    rounds = [(job, number) for job in jobs for number in range(1, job.repeat + 1)]
    texts = [_text(job, number, target, target / _file(job, number)) for job, number in rounds]  # or there is no folder
    folder = run_folder.create(dataclasses.replace(jobs[0], result_dir=str(target.parent), run_name=target.name))
    with run_folder.held(folder):
        command_file.keep(command, folder, [job.mask for job in jobs])
        for (job, number), (plan, text) in zip(rounds, texts, strict=True):
            run_folder.write_case(job, plan, folder)
            path = folder / _file(job, number)
            path.write_text(text, encoding="utf-8")
            print(f"kubectl apply -f {shlex.quote(str(path))}")
    print(f"flagperf report {shlex.quote(str(folder))} collect=true    # when the pods have ended")


def _file(job: JobConfig, number: int) -> Path:
    """Path of a round's manifests in the run's folder."""
    return Path(job.name, f"round{number}", MANIFESTS)


def _text(job: JobConfig, number: int, folder: Path, file: Path | None) -> tuple[Plan, str]:
    """The plan of a round, and its manifests as text; `file`: where this will be written, if it will."""
    owner = f"{getpass.getuser()}.{socket.gethostname()}"
    name = job_name(job, number, folder, owner)
    on_its_pods = on_pods(job, name)
    plan = make_plan(on_its_pods, number, folder)
    payload = Payload(POD_SCRIPT, code_archive(job.code_dirs))
    documents = manifests(on_its_pods, plan, name, labels(name, folder, owner), payload)
    return plan, manifest_text(on_its_pods, plan, documents, name, folder, file)
