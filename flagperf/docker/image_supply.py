"""Brings a run's image to its hosts by the policy of the cluster, and checks that all nodes have the same image."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flagperf.config.schema.platform import Image
from flagperf.docker.daemon import MISSING, DockerHost, DockerRefusal
from flagperf.docker.image_build import LOG, ImageBuild
from flagperf.errors import HostError
from flagperf.user import user_path

if TYPE_CHECKING:
    from docker import DockerClient

SAY_EVERY = 10.0  # seconds
LONGEST = 100  # characters of a build's line in a progress message

T = TypeVar("T")

log = logging.getLogger(__name__)


class ImageSupply:
    """The image of a round, shared by the nodes that this launcher runs.

    The first node that asks builds the image, and the others copy it. A build on every host would give images with
    different times and, later, different package versions. No node waits for a node that another launcher runs.

    Args:
        work_dir: the cluster's folder on its hosts; a build makes a folder inside.
        logs: folder of this machine with the first node's logs, for the log of a build.
        say: takes messages about the progress.
    """

    def __init__(self, image: Image, work_dir: str, logs: Path, say: Callable[[str], None]) -> None:
        self.image, self.work_dir, self.logs, self.say = image, work_dir, logs, say
        self._first: asyncio.Future[tuple[DockerHost, list[str]]] | None = None  # of the first node that asks

    async def supply(self, docker: DockerHost, rank: int) -> None:
        """Bring the image to a host that lacks it.

        Args:
            rank: of the host's node, for the log.

        Raises:
            HostError: the image cannot be brought to the host, or it differs from the first node's.
        """
        first_asked, self._first = self._first, self._first or asyncio.get_running_loop().create_future()
        reference, policy = self.image.reference, self.image.policy
        layers = await image_layers(docker, reference)
        present = "missing" if layers is None else "present"
        log.debug("%s (node rank %d): image %s is %s", docker.host, rank, reference, present)
        if layers is None and (first_asked is None or policy != "build"):
            await self._fetch(docker)
            layers = await image_layers(docker, reference)
        if first_asked is None:
            if layers is None:
                raise HostError(docker.host, f"the image that policy {policy} brought is not {reference}")
            self._first.set_result((docker, layers))
            return
        first, expected = await asyncio.shield(first_asked)
        if layers is None and policy == "build":
            await self._copy(first, docker)
            layers = await image_layers(docker, reference)
        if layers != expected:
            raise HostError(
                docker.host,
                f"{reference} differs from the image of the same name on {first.host}",
                advice=f"remove it there (docker rmi {reference}), so that it is fetched again",
            )

    async def _fetch(self, docker: DockerHost) -> None:
        log.info("%s: image %s: %s", docker.host, self.image.reference, self.image.policy)
        if self.image.policy == "present":
            raise HostError(
                docker.host,
                f"image {self.image.reference} is missing, and cluster.image.policy is present",
                advice="load it there, or choose cluster.image.policy=pull or load",
            )
        if self.image.policy == "pull":
            await self._ask(docker, "pulled", lambda client: client.images.pull(self.image.reference))
        elif self.image.policy == "load":
            await self._ask(docker, "loaded", self._load)
        else:
            build = ImageBuild(self.image, docker.transport, self.work_dir, self.logs / LOG)
            await self._with_progress(docker, build.run(), build.last_line)

    def _load(self, client: DockerClient) -> Any:
        assert self.image.settings.archive is not None
        with user_path(self.image.settings.archive).open("rb") as archive:
            return client.images.load(archive)

    async def _copy(self, first: DockerHost, docker: DockerHost) -> None:
        log.info("%s: image %s: copied from %s", docker.host, self.image.reference, first.host)
        source = await first.call(lambda client: client)

        def copy(client: DockerClient) -> Any:
            stream: Any = source.images.get(self.image.reference).save(named=True)
            return client.images.load(stream)  # takes an iterator, too, although its declared type is bytes

        await self._ask(docker, f"copied from {first.host}", copy)

    async def _ask(self, docker: DockerHost, participle: str, work: Callable[[DockerClient], Any]) -> None:
        async def progress() -> str:
            return f"being {participle}"

        try:
            await self._with_progress(docker, docker.call(work, again=False), progress)
        except DockerRefusal as error:
            problem = f"image {self.image.reference} cannot be {participle}: {error.explanation}"
            raise HostError(docker.host, problem) from error

    async def _with_progress(self, docker: DockerHost, work: Awaitable[T], progress: Callable[[], Awaitable[str]]) -> T:
        """Wait for work, and report its progress every SAY_EVERY seconds."""
        began, task = time.monotonic(), asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=SAY_EVERY)
                if not task.done():
                    seconds = time.monotonic() - began
                    self.say(f"{docker.host}: {self.image.reference}, {seconds:.0f} s: {(await progress())[:LONGEST]}")
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait({task})


async def image_layers(docker: DockerHost, reference: str) -> list[str] | None:
    """The layers of an image; None where it is missing. They identify an image on every host, unlike its ID."""
    try:
        image = await docker.call(lambda client: client.images.get(reference))
    except DockerRefusal as error:
        if error.status == MISSING:
            return None
        advice = f"remove it there (docker rmi -f {reference}); if docker refuses this too, {error.advice}"
        problem = f"docker refuses to show image {reference}: {error.explanation}"
        raise HostError(docker.host, problem, advice=advice) from error
    return list(image.attrs["RootFS"]["Layers"])
