"""Runs one command to its end in a container with the options of the ranks' container."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING

from flagperf.config.schema.platform import ContainerOptions
from flagperf.hosts.leftovers import this_owner
from flagperf.plan.container import option_mounts, owned, sdk_arguments
from flagperf.plan.values import Container

if TYPE_CHECKING:
    from docker import DockerClient

TIMEOUT = 120.0  # seconds; the first import of a framework reads gigabytes


def with_command(container: Container, options: ContainerOptions, argv: Sequence[str]) -> Container:
    """The container of a node's ranks with another command, and without the folders of a run."""
    name, mounts = f"flagperf-once-{token_hex(4)}", option_mounts(options)
    return owned(replace(container, name=name, argv=tuple(argv), mounts=mounts), this_owner())


def give(
    client: DockerClient, container: Container, options: ContainerOptions, folders: Sequence[str], owner: str
) -> tuple[int, str]:
    """Let root of a container give what the container's user has made to a user. Returns exit status and output.

    Files of anyone else stay as they are: several people may share a folder.

    Args:
        container: has mounts of the folders, and an image with the command.
        folders: of the host.
        options: of the container.
        owner: uid:gid. Root of a rootless daemon's containers is this user.
    """
    rootless = any("name=rootless" in option for option in client.info().get("SecurityOptions") or ())
    mounts = tuple(mount for mount in container.mounts if mount.source in folders)
    user = options.user or (client.images.get(container.image).attrs.get("Config") or {}).get("User") or "0"
    made = f"--from={user.partition(':')[0]}"
    argv = ("chown", "-hR", made, "0:0" if rootless else owner, *(mount.target for mount in mounts))
    command = with_command(replace(container, options=replace(options, user="0:0")), options, argv)
    return run_to_end(client, replace(command, mounts=(*command.mounts, *mounts)))


def run_to_end(client: DockerClient, container: Container) -> tuple[int, str]:
    """Run a container to its end, and remove it. Returns its exit status and its output."""
    try:
        created = client.containers.create(**sdk_arguments(container))
        created.start()
        status = created.wait(timeout=TIMEOUT)["StatusCode"]
        return int(status), created.logs().decode(errors="replace")
    finally:
        remove(client, container.name)


def remove(client: DockerClient, name: str) -> None:
    """Remove a container, running or not. A missing container is no error."""
    from docker.errors import NotFound

    with contextlib.suppress(NotFound):
        client.api.remove_container(name, force=True)
