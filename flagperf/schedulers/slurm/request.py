"""What is asked of Slurm for a job: options that salloc and sbatch both take. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flagperf.config.schema.schedulers import Slurm
from flagperf.config.schema.values import JobConfig

OURS = "flagperf"  # begins the comment and the name of our jobs …
SUBMITTED = "submitted"  # … and what the comment says, where no launcher waits for it


def request(job: JobConfig, slurm: Slurm, comment: str) -> list[str]:
    """The options, as --name or --name=value."""
    return written(_options(job, slurm, comment))


def written(options: Mapping[str, object]) -> list[str]:
    """Options as --name or --name=value; none for null or false."""
    given = {name: value for name, value in options.items() if value not in (None, False)}
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]


def step(job: JobConfig, slurm: Slurm) -> Mapping[str, object]:
    """Further options of the steps by which the nodes of a job are reached: those of the runtime and of the site."""
    fields = {
        "image": job.runtime.image or "IMAGE",
        "run": Path(job.result_dir).expanduser().absolute(),
        "data": job.data_dir,
    }
    of_runtime = {name: value.format(**fields) for name, value in job.runtime.srun.items()}
    return {**of_runtime, **slurm.step}


def _options(job: JobConfig, slurm: Slurm, comment: str) -> Mapping[str, object]:
    return {
        "job-name": f"{OURS}-{job.name}",
        "comment": f"{OURS} {comment}",
        "nodes": job.nnodes,
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "time": slurm.time,
        "constraint": slurm.constraint,
        "gres": slurm.gres,
        "gpus-per-node": None if slurm.gres else gpus(job, slurm),
        "exclusive": slurm.exclusive,
        **slurm.options,
    }


def gpus(job: JobConfig, slurm: Slurm) -> int | None:
    """Devices of each node; None where Slurm is not asked for them."""
    if slurm.gpus_per_node is not None:
        return slurm.gpus_per_node or None
    return job.nproc if job.vendor.device_files else None
