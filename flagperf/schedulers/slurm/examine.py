"""Checks on a login node whether a job can run on nodes of Slurm. Allocates nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from flagperf.config.schema.schedulers import Slurm
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, HostError
from flagperf.hosts.findings import Check, Finding, Row, look
from flagperf.schedulers.slurm.commands import SLURM, ask
from flagperf.schedulers.slurm.launcher_jobs import launcher_jobs
from flagperf.schedulers.slurm.request import gpus_per_node
from flagperf.user import user_path

OVER_NETWORK = "nfs|lustre|gpfs|beegfs|ceph|fuse|smb|9p|panfs|wekafs|afs|pvfs|orangefs|fhgfs|quobyte|gfs"
NO_PYXIS = "the site has no pyxis: runtime=process, or apptainer"
USABLE = ("idle", "mixed", "allocated", "completing", "planned", "reserved")  # states of nodes that will be free


async def examine(job: JobConfig) -> list[Row]:
    """One row for each check, also for a failed check."""
    assert job.cluster.slurm is not None
    checks = _Checks(job, job.cluster.slurm)
    controller = await look(SLURM, "controller", checks.controller)
    if controller.state == "failed":
        return [controller]
    other_checks: dict[str, Check] = {
        "munge": checks.munge,
        "partition": checks.partition,
        "devices": checks.devices,
        "files": checks.files,
        "container": checks.container,
        "leftovers": checks.leftovers,
    }
    return [controller, *[await look(SLURM, name, check) for name, check in other_checks.items()]]


class _Checks:
    """The checks, each a row."""

    def __init__(self, job: JobConfig, slurm: Slurm) -> None:
        self.job, self.slurm = job, slurm

    async def controller(self) -> Finding:
        version = (await ask("sinfo", "--version")).strip()
        answer = (await ask("scontrol", "ping")).strip()
        return Finding(f"{version}; {answer}")

    async def munge(self) -> Finding:
        config = dict(re.findall(r"^(\w+) *= (.*)$", await ask("scontrol", "show", "config"), re.M))
        if config.get("AuthType") != "auth/munge":
            return Finding(f"not used: {config.get('AuthType', 'unknown')}", skipped=True)
        socket = re.search(r"socket=([^,\s]+)", config.get("AuthInfo", ""))
        try:
            await ask("munge", "--no-input", *([f"--socket={socket[1]}"] if socket else []))
        except HostError as error:
            raise HostError(SLURM, error.problem, advice="start munged here, with the cluster's key") from None
        return Finding("gives credentials")

    async def partition(self) -> Finding:
        nodes = await self._nodes()
        usable = [node for node in nodes if node[1].rstrip("*~#!%$@+-^") in USABLE]
        idle = sum(node[1] == "idle" for node in nodes)
        name = self.slurm.partition or "the default one"
        if len(usable) < self.job.nnodes:
            allowed = f"1 to {len(usable)}"
            problem = f"{name} has {len(usable)} nodes in order of {len(nodes)}"
            raise ConfigError(problem, key="nnodes", given=self.job.nnodes, allowed=allowed)
        wait = "" if idle >= self.job.nnodes else "the job will wait; sinfo and squeue show for whom"
        return Finding(f"{name}: {idle} of {len(nodes)} nodes are idle, time limit {nodes[0][3]}", wait)

    async def devices(self) -> Finding:
        needed = gpus_per_node(self.job, self.slurm)
        if self.slurm.gres or not needed:
            return Finding(f"asked for: {self.slurm.gres or 'none'}; not compared", skipped=True)
        counts = [sum(map(int, re.findall(r"\bgpu:(?:[^:,()]+:)?(\d+)", node[2]))) for node in await self._nodes()]
        fit = sum(count >= needed for count in counts)
        if fit < self.job.nnodes:
            problem = f"{fit} nodes have {needed} devices (gres gpu)"
            advice = "set gres if devices have another name on this site, or gpus_per_node: 0"
            raise ConfigError(problem, key="nproc", given=self.job.nproc, advice=advice)
        return Finding(f"{fit} nodes have {needed} or more")

    async def files(self) -> Finding:
        if not self.slurm.shared:
            return Finding(f"code is sent to {self.job.cluster.work_dir} of each node, and logs collected")
        folder = user_path(self.job.result_dir).absolute()
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        kind = (await ask("stat", "--file-system", "--format=%T", str(existing))).strip()
        advice = "" if re.search(OVER_NETWORK, kind) else "give a result_dir that the nodes see, or slurm.shared: false"
        return Finding(f"{folder} lies on {kind}" + (", which nodes may not see" if advice else ""), advice)

    async def container(self) -> Finding:
        runtime, image = self.job.runtime, self.job.image
        if image is not None:
            text = f"docker, image {image.reference} by policy {image.policy}: nodes are asked when a run begins"
            return Finding(text, skipped=True)
        if not runtime.contained:
            return Finding(f"none: runtime={runtime.name}", skipped=True)
        if runtime.srun and "--container-image" not in await ask("srun", "--help"):
            raise ConfigError("srun knows no --container-image", key="runtime", given=runtime.name, advice=NO_PYXIS)
        if runtime.image is None:
            raise ConfigError("the runtime needs an image", key="runtime.image")
        if Path(runtime.image).is_absolute() and not Path(runtime.image).exists():
            raise ConfigError("there is no such file here", key="runtime.image", given=runtime.image)
        return Finding(f"{runtime.name}, {runtime.image}: can be checked on the nodes only", skipped=True)

    async def leftovers(self) -> Finding:
        jobs = await launcher_jobs()
        dead = [job for job, state in jobs.items() if state == "dead"]
        if dead:
            return Finding(f"jobs of dead runs: {', '.join(dead)}", f"flagperf clean cluster={self.job.cluster.name}")
        return Finding(f"jobs of other runs: {', '.join(jobs)}" if jobs else "none")

    async def _nodes(self) -> Sequence[tuple[str, str, str, str]]:
        """Name, state, gres and time limit of each node of the partition."""
        options = [f"--partition={self.slurm.partition}"] if self.slurm.partition else []
        lines = (await ask("sinfo", "--noheader", "--Node", *options, "-o", "%N|%T|%G|%l|%P")).splitlines()
        rows = [line.split("|") for line in lines]
        if not self.slurm.partition:
            rows = [row for row in rows if row[4].endswith("*")]
        if not rows:
            partitions = (await ask("sinfo", "--noheader", "-o", "%R")).split()
            given, allowed = self.slurm.partition or "none", ", ".join(partitions)
            raise ConfigError("no such partition", key="cluster.slurm.partition", given=given, allowed=allowed)
        return [(row[0], row[1], row[2], row[3]) for row in rows]
