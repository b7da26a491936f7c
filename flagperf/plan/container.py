"""Makes a node's container from the options of runtime, vendor and cluster, in two forms for docker.

`docker_run_argv` is the command line that a dry run shows. `sdk_arguments` is the call of the docker SDK. Both read the
table `OPTIONS`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.platform import ContainerOptions
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.contract.fields import size_in_bytes
from flagperf.contract.sample_data import is_sample_folder
from flagperf.plan.values import Container, Mount, launcher_log

if TYPE_CHECKING:
    from docker.types import DeviceRequest, Ulimit
    from docker.types import Mount as SdkMount

MARK = "FLAGPERF_CONTAINER"  # variable that finds a container's processes on the host when its daemon has ended
LABEL = "flagperf"  # flagperf.run, flagperf.node, flagperf.owner
OWNER = f"{LABEL}.owner"
SLURM_JOB = f"{LABEL}.slurm_job"  # no container of that job outlives it by right
STAND_IN_OWNER = "<host, boot, pid and start time of the launcher>"  # until an execution knows them: `owned`
TO_LOG = 'exec "$@" >>"$0" 2>&1'  # docker's own log loses lines on a full disk


@dataclass(frozen=True)
class Paths:
    """Folders of a round on a host: of the run, of the round, of this node's logs."""

    run: PurePosixPath
    round: PurePosixPath
    logs: PurePosixPath


def make_container(job: JobConfig, node: Node, rank: int, paths: Paths, start: Command) -> Container | None:
    """The container of a node in a round; None where the runtime has no containers.

    Paths in the container are the host's paths, except data: the job's data_dir, wherever a host keeps the data.
    """
    if job.container is None or job.image is None:
        return None
    digest = hashlib.sha256(str(paths.run).encode()).hexdigest()[:8]
    name = f"flagperf-{digest}-{paths.round.name}-node{rank}"
    slurm_job = job.cluster.slurm and job.cluster.slurm.job
    log = launcher_log(str(paths.logs), job.framework.name)
    mounts = (
        *option_mounts(job.container),
        Mount(str(paths.run), str(paths.run)),
        Mount(str(paths.round), str(paths.round), read_only=False),
        *_data_mounts(job, node),
    )
    return Container(
        name=name,
        image=job.image.reference,
        argv=("sh", "-c", TO_LOG, log, *start.argv),
        env={**start.env, MARK: name},
        labels={
            f"{LABEL}.run": paths.run.name,
            f"{LABEL}.node": str(rank),
            OWNER: STAND_IN_OWNER,
            **({SLURM_JOB: str(slurm_job)} if slurm_job else {}),
        },
        mounts=mounts,
        options=_accepted(job.container),
    )


def _accepted(options: ContainerOptions) -> ContainerOptions:
    """Without a size of /dev/shm where the host's own is used: docker ignores this size, and podman refuses it."""
    return replace(options, shm_size=None) if options.ipc == "host" else options


def _data_mounts(job: JobConfig, node: Node) -> Iterator[Mount]:
    """Mounts of the data and of checkpoints, at the paths where the ranks look for them."""
    data_dir = job.data_dir
    if is_sample_folder(job.config):
        target = str(PurePosixPath(data_dir).parent)
        yield Mount(sample_root(job, node), target, read_only=False)
    else:
        yield Mount(node.data_dir or data_dir, data_dir)
    checkpoint = job.init_checkpoint
    if checkpoint and not PurePosixPath(checkpoint).is_relative_to(data_dir):
        yield Mount(checkpoint, checkpoint)
    if job.resume and node.same_files:  # other hosts have the checkpoint in the run's folder
        yield Mount(job.resume, job.resume)


def sample_root(job: JobConfig, node: Node) -> str:
    """The folder of a host for sample data."""
    data_dir = PurePosixPath(job.data_dir)
    return str(data_dir.parent if node.same_files else PurePosixPath(job.cluster.work_dir, "sample"))


def data_dir_on(job: JobConfig, node: Node) -> str:
    """The data folder of a host for ranks without a container."""
    if is_sample_folder(job.config):
        return str(PurePosixPath(sample_root(job, node), PurePosixPath(job.data_dir).name))
    return node.data_dir or job.data_dir


def option_mounts(options: ContainerOptions) -> tuple[Mount, ...]:
    """The mounts that the options ask for, as `source: target[:rw]`."""
    mounts = []
    for source, target in options.mounts.items():
        if target is not None:
            mounts.append(Mount(source, target.removesuffix(":rw"), read_only=not target.endswith(":rw")))
    return tuple(mounts)


def owned(container: Container, owner: str) -> Container:
    """The container with the label of its launcher, which only an execution knows."""
    return replace(container, labels={**container.labels, OWNER: owner})


def docker_run_argv(container: Container) -> tuple[str, ...]:
    """The container as a command line."""
    options = (argument for option in OPTIONS for argument in option.argv(container))
    return ("docker", "run", "--name", container.name, *options, container.image, *container.argv)


def sdk_arguments(container: Container) -> dict[str, Any]:
    """The container as keyword arguments of `client.containers.create`."""
    options = {option.keyword: option.sdk(value) for option in OPTIONS if (value := option.value(container))}
    return {"name": container.name, "image": container.image, "command": list(container.argv), **options}


def _gpus_text(gpus: str) -> str:
    return f'"{gpus}"' if "," in gpus else gpus  # docker parses the value as a line of CSV


def _device_requests(gpus: str) -> list[DeviceRequest]:
    from docker.types import DeviceRequest

    if gpus.startswith("device="):
        return [DeviceRequest(device_ids=gpus.removeprefix("device=").split(","), capabilities=[["gpu"]])]
    return [DeviceRequest(count=-1 if gpus == "all" else int(gpus), capabilities=[["gpu"]])]


def _device_in_full(device: str) -> str:
    """A device in the full form that the SDK needs: host:container:permissions."""
    host, *options = device.split(":")
    target, permissions = (*options, *(host, "rwm")[len(options) :])
    return f"{host}:{target}:{permissions}"


def _limits(limits: Mapping[str, int | None]) -> list[Ulimit]:
    from docker.types import Ulimit

    return [Ulimit(name=name, soft=limit, hard=limit) for name, limit in limits.items() if limit is not None]


def _mount_text(mount: Mount) -> str:
    """The value of --mount, a line of CSV. Unlike -v, --mount refuses a missing source."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"] + ["readonly"] * mount.read_only
    return ",".join('"' + field.replace('"', '""') + '"' if re.search('[",\n]', field) else field for field in fields)


def _bind_mounts(mounts: tuple[Mount, ...]) -> list[SdkMount]:
    from docker.types import Mount as SdkMount

    return [SdkMount(mount.target, mount.source, type="bind", read_only=mount.read_only) for mount in mounts]


@dataclass(frozen=True)
class Option:
    """One option of a container: a flag of `docker run`, and a keyword of the SDK's `containers.create`."""

    flag: str
    keyword: str
    field: str  # of Container
    text: Callable[[Any], str] = str  # value, or item of a list → value of the flag
    sdk: Callable[[Any], Any] = lambda value: value  # value → value of the keyword

    def value(self, container: Container) -> Any:
        """The option's value in the container; None, False or empty: not used."""
        return attrgetter(self.field)(container)

    def argv(self, container: Container) -> Iterator[str]:
        """The option as arguments of `docker run`."""
        value = self.value(container)
        if value is True:
            yield f"--{self.flag}"
            return
        for item in _items(value):
            yield f"--{self.flag}={self.text(item)}"


def _items(value: Any) -> Iterable[Any]:
    """The values of a repeated flag."""
    if isinstance(value, Mapping):
        return [f"{name}={item}" for name, item in value.items() if item is not None]
    if isinstance(value, tuple):
        return value
    return (value,) if value else ()


OPTIONS = (
    Option("network", "network_mode", "options.network"),
    Option("ipc", "ipc_mode", "options.ipc"),
    Option("pid", "pid_mode", "options.pid"),
    Option("uts", "uts_mode", "options.uts"),
    Option("shm-size", "shm_size", "options.shm_size", sdk=size_in_bytes),
    Option("memory", "mem_limit", "options.memory", sdk=size_in_bytes),
    Option("cpus", "nano_cpus", "options.cpus", text="{:g}".format, sdk=lambda cpus: round(cpus * 1e9)),
    Option("gpus", "device_requests", "options.gpus", text=_gpus_text, sdk=_device_requests),
    Option("runtime", "runtime", "options.runtime"),
    Option("user", "user", "options.user"),
    Option("init", "init", "options.init"),
    Option("privileged", "privileged", "options.privileged"),
    Option("device", "devices", "options.devices", sdk=lambda devices: [_device_in_full(device) for device in devices]),
    Option("cap-drop", "cap_drop", "options.cap_drop", sdk=list),
    Option("cap-add", "cap_add", "options.cap_add", sdk=list),
    Option("security-opt", "security_opt", "options.security_opt", sdk=list),
    Option("group-add", "group_add", "options.group_add", sdk=list),
    Option("ulimit", "ulimits", "options.ulimits", sdk=_limits),
    Option("label", "labels", "labels", sdk=dict),
    Option("mount", "mounts", "mounts", text=_mount_text, sdk=_bind_mounts),
    Option("env", "environment", "env", sdk=dict),
)
