"""Brings a run's image to its hosts, by its policy, and makes sure that all nodes run the same one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flagperf.config.schema.platform import Image
from flagperf.docker.daemon import DockerHost
from flagperf.docker.image_build import LOG, ImageBuild
from flagperf.errors import HostError

if TYPE_CHECKING:
    from docker import DockerClient

SAY_EVERY = 10.0  # seconds
LONGEST = 100  # characters of a build's line that are shown

T = TypeVar("T")

log = logging.getLogger(__name__)


class ImageSupply:
    """Shared by the nodes of a round. Node 0 comes first: it builds, and the others copy from it.

    Building on every host would give images that differ in their times and, later, in the packages found.

    Args:
        work_dir: the cluster's folder on its hosts; a build makes a folder of its own there.
        logs: folder of this machine with node 0's logs; the log of a build is kept there.
        say: is told from time to time how far the work is.
    """

    def __init__(self, image: Image, work_dir: str, logs: Path, say: Callable[[str], None]) -> None:
        self.image, self.work_dir, self.logs, self.say = image, work_dir, logs, say
        self._first: asyncio.Future[tuple[DockerHost, list[str]]] = asyncio.get_running_loop().create_future()

    async def supply(self, docker: DockerHost, rank: int) -> None:
        """Bring the image to a host that lacks it.

        Raises:
            HostError: the image cannot be had, or it differs from node 0's.
        """
        layers = await image_layers(docker, self.image.reference)
        log.debug("%s: image %s is %s", docker.host, self.image.reference, "not there" if layers is None else "there")
        if rank == 0:
            if layers is None:
                await self._fetch(docker)
                layers = await image_layers(docker, self.image.reference)
            if layers is None:
                raise HostError(
                    docker.host, f"{self.image.reference} is not in what was fetched by policy {self.image.policy}"
                )
            self._first.set_result((docker, layers))
            return
        if layers is None and self.image.policy != "build":
            await self._fetch(docker)
            layers = await image_layers(docker, self.image.reference)
        first, wanted = await asyncio.shield(self._first)
        if layers is None and self.image.policy == "build":
            await self._copy(first, docker)
            layers = await image_layers(docker, self.image.reference)
        if layers != wanted:
            raise HostError(
                docker.host,
                f"{self.image.reference} is another image there than on {first.host}",
                advice=f"remove it there (docker rmi {self.image.reference}), so that it is fetched again",
            )

    async def _fetch(self, docker: DockerHost) -> None:
        log.info("%s: image %s: %s", docker.host, self.image.reference, self.image.policy)
        if self.image.policy == "present":
            raise HostError(
                docker.host,
                f"image {self.image.reference} is not there, and cluster.image.policy is present",
                advice="load it there, or choose cluster.image.policy=pull or load",
            )
        if self.image.policy == "pull":
            await self._ask(docker, "pulled", lambda client: client.images.pull(self.image.reference))
        elif self.image.policy == "load":
            await self._ask(docker, "loaded", self._load)
        else:
            build = ImageBuild(self.image, docker.transport, self.work_dir, self.logs / LOG)
            await self._patiently(docker, build.run(), build.last_line)

    def _load(self, client: DockerClient) -> Any:
        assert self.image.settings.archive is not None
        with Path(self.image.settings.archive).expanduser().open("rb") as archive:
            return client.images.load(archive)

    async def _copy(self, first: DockerHost, docker: DockerHost) -> None:
        log.info("%s: image %s: copied from %s", docker.host, self.image.reference, first.host)
        source = await first.call(lambda client: client)

        def copy(client: DockerClient) -> Any:
            stream: Any = source.images.get(self.image.reference).save(named=True)
            return client.images.load(stream)  # takes an iterator too, although its type says bytes

        await self._ask(docker, f"copied from {first.host}", copy)

    async def _ask(self, docker: DockerHost, done: str, work: Callable[[DockerClient], Any]) -> None:
        from docker.errors import DockerException

        async def told() -> str:
            return f"being {done}"

        try:
            await self._patiently(docker, docker.call(work, again=False), told)
        except DockerException as error:
            why = getattr(error, "explanation", None) or str(error)
            raise HostError(docker.host, f"image {self.image.reference} cannot be {done}: {why}") from error

    async def _patiently(self, docker: DockerHost, work: Awaitable[T], told: Callable[[], Awaitable[str]]) -> T:
        """Wait for work, and say from time to time how far it is."""
        began, task = time.monotonic(), asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=SAY_EVERY)
                if not task.done():
                    seconds = time.monotonic() - began
                    self.say(f"{docker.host}: {self.image.reference}, {seconds:.0f} s: {(await told())[:LONGEST]}")
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait({task})


async def image_layers(docker: DockerHost, reference: str) -> list[str] | None:
    """What identifies an image on every host, which its ID does not after docker import; None where it is not there."""
    from docker.errors import ImageNotFound

    try:
        image = await docker.call(lambda client: client.images.get(reference))
    except ImageNotFound:
        return None
    return list(image.attrs["RootFS"]["Layers"])
