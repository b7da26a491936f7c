"""Containers that flagperf made on a host, and the state of their launchers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from flagperf.hosts.leftovers import OwnerState, owner_state
from flagperf.hosts.source import source
from flagperf.plan.container import OWNER, SLURM_JOB

if TYPE_CHECKING:
    from docker import DockerClient

Labels = Mapping[str, str]


async def container_states(
    ask: Callable[[Callable[[DockerClient], dict[str, Labels]]], Awaitable[dict[str, Labels]]],
) -> dict[str, OwnerState]:
    """Name of each container → state of its launcher. A container is dead when its Slurm job has ended.

    Args:
        ask: runs work with the host's docker client.
    """
    return {name: await _state(labels) for name, labels in (await ask(_labels)).items()}


def _labels(client: DockerClient) -> dict[str, Labels]:
    containers = client.api.containers(all=True, filters={"label": OWNER})
    return {container["Names"][0].lstrip("/"): container["Labels"] for container in containers}


async def _state(labels: Labels) -> OwnerState:
    job = labels.get(SLURM_JOB)
    return "dead" if job and await source("slurm").is_over(int(job)) else owner_state(labels[OWNER])
