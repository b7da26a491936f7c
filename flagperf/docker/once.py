"""One command in a container as that of the ranks, to its end: what does an image hold, does its Python start?"""

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


def once(container: Container, options: ContainerOptions, argv: Sequence[str]) -> Container:
    """The container of a node's ranks with another command, and without the folders of a run."""
    name, mounts = f"flagperf-once-{token_hex(4)}", option_mounts(options)
    return owned(replace(container, name=name, argv=tuple(argv), mounts=mounts), this_owner())


def run_once(client: DockerClient, container: Container) -> tuple[int, str]:
    """Run a container to its end, and remove it: exit status, and what it printed."""
    try:
        created = client.containers.create(**sdk_arguments(container))
        created.start()
        status = created.wait(timeout=TIMEOUT)["StatusCode"]
        return int(status), created.logs().decode(errors="replace")
    finally:
        remove(client, container.name)


def remove(client: DockerClient, name: str) -> None:
    """Remove a container, running or not, if it is there."""
    from docker.errors import NotFound

    with contextlib.suppress(NotFound):
        client.api.remove_container(name, force=True)
