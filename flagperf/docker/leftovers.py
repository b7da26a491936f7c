"""Containers that flagperf made on a host, and what has become of who made them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from flagperf.hosts.leftovers import OwnerState, owner_state
from flagperf.hosts.source import source
from flagperf.plan.container import OWNER, SLURM_JOB

if TYPE_CHECKING:
    from docker import DockerClient

Labels = Mapping[str, str]


async def containers(
    ask: Callable[[Callable[[DockerClient], dict[str, Labels]]], Awaitable[dict[str, Labels]]],
) -> dict[str, OwnerState]:
    """Their names, with the state of their launcher. Past its Slurm job a container is dead, whoever made it.

    Args:
        ask: lets the host's daemon do work.
    """
    return {name: await _state(labels) for name, labels in (await ask(_labels)).items()}


def _labels(client: DockerClient) -> dict[str, Labels]:
    found = client.api.containers(all=True, filters={"label": OWNER})
    return {container["Names"][0].lstrip("/"): container["Labels"] for container in found}


async def _state(labels: Labels) -> OwnerState:
    job = labels.get(SLURM_JOB)
    return "dead" if job and await source("slurm").is_over(int(job)) else owner_state(labels[OWNER])
