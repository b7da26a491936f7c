"""Who brings a round's image to its hosts, where one launcher runs all nodes or some of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from flagperf.config.schema.platform import Image
from flagperf.docker import image_supply
from flagperf.docker.daemon import DockerHost
from flagperf.docker.image_supply import ImageSupply
from flagperf.errors import HostError

pytestmark = pytest.mark.asyncio


class Daemon:
    """A host with the layers of its image."""

    def __init__(self, host: str, layers: list[str] | None) -> None:
        self.host, self.layers = host, layers


@pytest.mark.parametrize(
    ("ranks", "layers", "answers"),
    [
        pytest.param([0, 1], ["a", "a"], [None, None], id="all nodes"),
        pytest.param([0, 1], ["a", "b"], [None, "image:1 differs from the image of the same name on h0"], id="differ"),
        pytest.param([1], ["a"], [None], id="node 1 alone, as flagperf node runs it"),
        pytest.param([3, 4], ["a", "a"], [None, None], id="some nodes without node 0"),
        pytest.param(
            [1], [None], ["image image:1 is missing, and cluster.image.policy is present"], id="node 1 without it"
        ),
    ],
)
async def test_no_node_waits_for_a_node_of_another_launcher(
    monkeypatch: pytest.MonkeyPatch, ranks: list[int], layers: list[str | None], answers: list[str | None]
) -> None:
    async def layers_of(docker: Daemon, _: str) -> list[str] | None:
        return docker.layers

    async def supply(docker: Daemon, rank: int) -> str | None:
        try:
            await images.supply(cast("DockerHost", docker), rank)
        except HostError as error:
            return error.problem
        return None

    monkeypatch.setattr(image_supply, "image_layers", layers_of)
    images = ImageSupply(Image("image:1", "present"), "/tmp", Path(), print)
    daemons = [Daemon(f"h{rank}", [held] if held else None) for rank, held in zip(ranks, layers, strict=True)]
    given = await asyncio.gather(*(supply(*pair) for pair in zip(daemons, ranks, strict=True)))
    assert given == answers
