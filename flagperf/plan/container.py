"""A node's container: made of the options of runtime, vendor and cluster, and told to docker in two ways.

`docker_run_words` gives the command line that a dry run shows, `sdk_arguments` the call of the docker SDK.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from flagperf.command import Command
from flagperf.config.values import ContainerOptions, Node, RunConfig
from flagperf.fields import SIZE
from flagperf.plan.values import Container, Mount
from flagperf.trainer.sample_data import is_sample

if TYPE_CHECKING:
    from docker.types import DeviceRequest

MARK = "FLAGPERF_CONTAINER"  # variable that finds a container's processes on the host when its daemon is gone
LABEL = "flagperf"  # flagperf.run, flagperf.node, flagperf.owner
UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


@dataclass(frozen=True)
class Paths:
    """Folders of a round on a host: of the run, of the round, of this node's logs."""

    run: PurePosixPath
    round: PurePosixPath
    logs: PurePosixPath


def make_container(run: RunConfig, node: Node, rank: int, paths: Paths, launch: Command) -> Container | None:
    """The container of a node in a round, where the runtime has one.

    Its paths are those of the host; data lies at the run's data_dir, wherever a host keeps it.
    """
    if run.container is None or run.image is None:
        return None
    digest = hashlib.sha256(str(paths.run).encode()).hexdigest()[:8]
    name = f"flagperf-{digest}-{paths.round.name}-node{rank}"
    log = paths.logs / f"start_{run.framework}_task.log"
    mounts = (
        *option_mounts(run.container),
        Mount(str(paths.run), str(paths.run)),
        Mount(str(paths.round), str(paths.round), read_only=False),
        *_data_mounts(run, node),
    )
    return Container(
        name=name,
        image=run.image.reference,
        argv=(
            "sh",
            "-c",
            'exec "$@" >>"$0" 2>&1',
            str(log),
            *launch.argv,
        ),  # docker's own log loses lines on a full disk
        env={**launch.env, MARK: name},
        labels={f"{LABEL}.run": paths.run.name, f"{LABEL}.node": str(rank)},
        mounts=mounts,
        options=run.container,
    )


def _data_mounts(run: RunConfig, node: Node) -> Iterator[Mount]:
    """Data, and what else the configuration names by path, where the ranks look for it."""
    data_dir = run.config["data_dir"]
    if is_sample(run.config):
        target = str(PurePosixPath(data_dir).parent)
        yield Mount(sample_root(run, node), target, read_only=False)
    else:
        yield Mount(node.data_dir or data_dir, data_dir)
    checkpoint = run.config.get("init_checkpoint")
    if checkpoint and not PurePosixPath(checkpoint).is_relative_to(data_dir):
        yield Mount(checkpoint, checkpoint)
    if run.config["resume"] and node.local:  # other hosts have it in the run's folder
        yield Mount(run.config["resume"], run.config["resume"])


def sample_root(run: RunConfig, node: Node) -> str:
    """Where a host keeps sample data."""
    data_dir = PurePosixPath(run.config["data_dir"])
    return str(data_dir.parent if node.local else PurePosixPath(run.cluster.work_dir, "sample"))


def option_mounts(options: ContainerOptions) -> tuple[Mount, ...]:
    """The mounts that the options ask for, as `source: target[:rw]`."""
    mounts = []
    for source, target in options.mounts.items():
        if target is not None:
            mounts.append(Mount(source, target.removesuffix(":rw"), read_only=not target.endswith(":rw")))
    return tuple(mounts)


def docker_run_words(container: Container) -> tuple[str, ...]:
    """The container as a command line."""
    options = container.options
    words = ["docker", "run", "--name", container.name]
    for flag, value in (
        ("network", options.network),
        ("ipc", options.ipc),
        ("pid", options.pid),
        ("uts", options.uts),
        ("shm-size", options.shm_size),
        ("memory", options.memory),
        ("cpus", options.cpus),
        ("gpus", options.gpus and _gpus_word(options.gpus)),
        ("runtime", options.runtime),
        ("user", options.user),
    ):
        if value is not None:
            words.append(f"--{flag}={value:g}" if isinstance(value, float) else f"--{flag}={value}")
    words += [f"--{flag}" for flag in ("init", "privileged") if getattr(options, flag)]
    for flag, values in (
        ("device", options.devices),
        ("cap-add", options.cap_add),
        ("security-opt", options.security_opt),
        ("group-add", options.group_add),
        ("ulimit", [f"{name}={limit}" for name, limit in options.ulimits.items() if limit is not None]),
        ("label", [f"{name}={value}" for name, value in container.labels.items()]),
        ("mount", map(_mount_word, container.mounts)),
        ("env", [f"{name}={value}" for name, value in container.env.items()]),
    ):
        words += [f"--{flag}={value}" for value in values]
    return (*words, container.image, *container.argv)


def sdk_arguments(container: Container) -> dict[str, Any]:
    """The container as keyword arguments of `client.containers.create`."""
    from docker.types import Mount as SdkMount
    from docker.types import Ulimit

    options = container.options
    limits = {name: limit for name, limit in options.ulimits.items() if limit is not None}
    arguments: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "command": list(container.argv),
        "environment": dict(container.env),
        "labels": dict(container.labels),
        "mounts": [
            SdkMount(mount.target, mount.source, type="bind", read_only=mount.read_only) for mount in container.mounts
        ],
        "ulimits": [Ulimit(name=name, soft=limit, hard=limit) for name, limit in limits.items()],
        "network_mode": options.network,
        "ipc_mode": options.ipc,
        "pid_mode": options.pid,
        "uts_mode": options.uts,
        "shm_size": options.shm_size and size_in_bytes(options.shm_size),
        "mem_limit": options.memory and size_in_bytes(options.memory),
        "nano_cpus": options.cpus and round(options.cpus * 1e9),
        "device_requests": options.gpus and [_device_request(options.gpus)],
        "runtime": options.runtime,
        "user": options.user,
        "init": options.init,
        "privileged": options.privileged,
        "devices": [_device_word(device) for device in options.devices],
        "cap_add": list(options.cap_add),
        "security_opt": list(options.security_opt),
        "group_add": list(options.group_add),
    }
    return {name: value for name, value in arguments.items() if value not in (None, [], False)}


def size_in_bytes(text: str) -> int:
    """Bytes of a size as docker writes it: 512m, 1.5g."""
    found = re.fullmatch(SIZE, text.lower())
    if not found:
        raise ValueError(f"not a size: {text}")  # composition refuses it before
    return int(float(found[1]) * UNITS[found[2]])


def _gpus_word(gpus: str) -> str:
    return f'"{gpus}"' if "," in gpus else gpus  # docker parses the value as a line of CSV


def _device_request(gpus: str) -> DeviceRequest:
    from docker.types import DeviceRequest

    if gpus.startswith("device="):
        return DeviceRequest(device_ids=gpus.removeprefix("device=").split(","), capabilities=[["gpu"]])
    return DeviceRequest(count=-1 if gpus == "all" else int(gpus), capabilities=[["gpu"]])


def _device_word(device: str) -> str:
    """host:container:permissions, which the SDK wants in full."""
    host, *rest = device.split(":")
    target, permissions = (*rest, *(host, "rwm")[len(rest) :])
    return f"{host}:{target}:{permissions}"


def _mount_word(mount: Mount) -> str:
    """Unlike -v, --mount refuses a source that is not there. docker parses the value as a line of CSV."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"] + ["readonly"] * mount.read_only
    return ",".join('"' + field.replace('"', '""') + '"' if re.search('[",\n]', field) else field for field in fields)
