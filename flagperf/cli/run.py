"""flagperf run: compose the configuration, train, report (the default verb)

usage: flagperf [run] [OVERRIDES…] [-m]

Results go to result/run<date>-<time>; flagperf watch shows a run in another terminal.

overrides needed most:
  model=NAME framework=NAME size=full|tiny
                                the case
  vendor=NAME hardware=NAME     the accelerator
  cluster=NAME runtime=docker|process|…
                                the hosts, and how ranks start there; apptainer and pyxis: on Slurm
  nnodes=N nproc=N              nodes, and devices of each
  data_dir=PATH                 the real data; sample data is used where size=tiny
  max_steps=N max_epochs=N max_time=SECONDS
                                stop early
  train_batch_size=N lr=X precision=fp32|tf32|amp_fp16|amp_bf16
                                settings of the case: flagperf list CASE
  repeat=N                      rounds of the same job
  division=closed|open          open: any key of the case may change, and the report says so
  submit=true                   with cluster=slurm: put the run into the queue, and do not wait (docs/schedulers.md)
  dry_run=true                  print configuration, changes and commands; run nothing
  render=FOLDER                 on Kubernetes: write the run's manifests for kubectl; run nothing
  probe=run|alone|fabric|links|operators
                                measure each device after the training; in place of it, without data: alone: each
                                device, fabric: the links between devices, links: search for a slow link, operators:
                                single operators (docs/probe.md)

options: -m, --config-dir

examples:
  flagperf run model=glm nproc=2 repeat=3
  flagperf -m model=resnet50,glm nproc=1,2 max_steps=20
  flagperf model=glm vendor=nvidia hardware=A100 nnodes=2 nproc=8 cluster=lab data_dir=/data/glm
  flagperf run probe=alone nproc=2

exit codes: 0, 2, 3, 4, 5, 6, 130
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flagperf.config.compose import compose_jobs
from flagperf.config.schema.keys import PROBES
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, NoValidCaseError, nearest
from flagperf.schedulers.interface import scheduler

PROBE, AUTO = [f"probe={name}" for name in PROBES], "parallel=auto"

if TYPE_CHECKING:
    from flagperf.run.command_file import Command


def main(options: argparse.Namespace) -> int:
    """Compose, plan, execute, read, report."""
    if any(word in options.arguments for word in PROBE):
        options.arguments = [*options.arguments, "size=tiny"]  # the reduced case: no data is needed
    if AUTO in options.arguments:
        from flagperf.run.auto_mesh import with_mesh  # heavy, and no part of another command

        options.arguments = with_mesh(
            options.arguments, multirun=options.multirun, config_dirs=options.config_dir, say=print
        )
    jobs = compose_jobs(options.arguments, multirun=options.multirun, config_dirs=options.config_dir)
    if not jobs:
        raise NoValidCaseError("no case is left to run")
    jobs = _chosen(jobs)
    if jobs[0].resume is not None:
        from flagperf.run.resume import check_resumed

        check_resumed(jobs)
    request = scheduler(jobs[0].cluster.source).request(jobs, partial(_command, options))
    if jobs[0].dry_run:
        print(request.text())
        return 0
    return request.execute(_launch, print)


def _launch(jobs: Sequence[JobConfig], command: Command) -> int:
    """Run jobs from this launcher; returns the exit code."""
    if jobs[0].probe in PROBES:
        from flagperf.cli.probe import probe

        return probe(jobs, command.config_dirs)
    from flagperf.cli.jobs import run  # heavy, and no part of a dry run or a refusal

    return run(jobs, command)


def _command(options: argparse.Namespace) -> Command:
    """The command line, its folder and its time."""
    from flagperf.run.command_file import Command

    dirs = tuple(str(folder) for folder in options.config_dir)
    return Command(tuple(options.arguments), options.multirun, dirs, str(Path.cwd()), options.began)


def _chosen(jobs: list[JobConfig]) -> list[JobConfig]:
    """The job that `only` names, or all jobs where `only` is null."""
    name = jobs[0].only
    selected = [job for job in jobs if name in (None, job.name)]
    if not selected:
        known = [job.name for job in jobs]
        raise ConfigError("no such job", key="only", given=name, allowed=nearest(str(name), known))
    return selected
