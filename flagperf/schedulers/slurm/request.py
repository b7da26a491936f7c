"""The request of a job to Slurm: options of both salloc and sbatch. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flagperf.config.schema.schedulers import Slurm
from flagperf.config.schema.values import JobConfig
from flagperf.user import user_path

PREFIX = "flagperf"  # begin of the comment and of the name of each job
SUBMITTED = "submitted"  # the comment of a job without a waiting launcher


def request(job: JobConfig, slurm: Slurm, comment: str) -> list[str]:
    """The options of the request."""
    return as_options(_options(job, slurm, comment))


def as_options(options: Mapping[str, object]) -> list[str]:
    """Options as --name or --name=value; none for null or false."""
    used = {name: value for name, value in options.items() if value not in (None, False)}
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in used.items()]


def step_options(job: JobConfig, slurm: Slurm) -> Mapping[str, object]:
    """Further options of the srun steps that reach the nodes of a job: options of the runtime and of the site."""
    fields = {
        "image": job.runtime.image or "IMAGE",
        "run": user_path(job.result_dir).absolute(),
        "data": job.data_dir,
    }
    of_runtime = {name: value.format(**fields) for name, value in job.runtime.srun.items()}
    return {**of_runtime, **slurm.step}


def _options(job: JobConfig, slurm: Slurm, comment: str) -> Mapping[str, object]:
    return {
        "job-name": f"{PREFIX}-{job.name}",
        "comment": f"{PREFIX} {comment}",
        "nodes": job.nnodes,
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "time": slurm.time,
        "constraint": slurm.constraint,
        "gres": slurm.gres,
        "gpus-per-node": None if slurm.gres else gpus_per_node(job, slurm),
        "exclusive": slurm.exclusive,
        **slurm.options,
    }


def gpus_per_node(job: JobConfig, slurm: Slurm) -> int | None:
    """Number of devices of each node to ask for; None: ask for no devices."""
    if slurm.gpus_per_node is not None:
        return slurm.gpus_per_node or None
    return job.nproc if job.vendor.device_files else None
