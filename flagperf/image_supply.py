"""Brings a run's image to its hosts, by its policy, and makes sure that all nodes run the same one."""

from __future__ import annotations

import asyncio
import logging
import shlex
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flagperf.docker_host import DockerHost
from flagperf.errors import HostError
from flagperf.image import build_context
from flagperf.schema import Command, Image

if TYPE_CHECKING:
    from docker import DockerClient

BUILD_GRACE = 5.0  # seconds between SIGTERM and SIGKILL of a build
LAST_LINES = 20  # shown of a build that failed
SHORT = 30.0  # seconds for removing files
SAY_EVERY = 10.0  # seconds
LONGEST = 100  # characters of a build's line that are shown

T = TypeVar("T")

log = logging.getLogger(__name__)


class ImageSupply:
    """Shared by the nodes of a round. Node 0 comes first: it builds, and the others copy from it.

    Building on every host would give images that differ in their times and, later, in the packages found.
    """

    def __init__(self, image: Image, work_dir: str, say: Callable[[str], None]) -> None:
        self.image, self.work_dir, self.say = image, work_dir, say
        self._first: asyncio.Future[tuple[DockerHost, list[str]]] = asyncio.get_running_loop().create_future()

    async def supply(self, docker: DockerHost, rank: int) -> None:
        """Have the image on a host.

        Raises:
            HostError: it is not there and cannot be had, or it is another one than node 0's.
        """
        layers = await image_layers(docker, self.image.reference)
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
            await self._build(docker)

    def _load(self, client: DockerClient) -> Any:
        assert self.image.settings.archive is not None
        with Path(self.image.settings.archive).expanduser().open("rb") as archive:
            return client.images.load(archive)

    async def _copy(self, first: DockerHost, docker: DockerHost) -> None:
        log.info("%s: image %s: copied from %s", docker.host, self.image.reference, first.host)
        source = await first.client()

        def copy(client: DockerClient) -> Any:
            stream: Any = source.images.get(self.image.reference).save(named=True)
            return client.images.load(stream)  # which streams what its types do not say: an iterator

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

    async def _build(self, docker: DockerHost) -> None:
        """Build on the host with BuildKit, whose secrets keep index and certificate out of the image."""
        assert self.image.folder is not None
        transport, place = docker.transport, f"{self.work_dir}/build-{self.image.reference.partition(':')[2]}"
        with tempfile.TemporaryDirectory() as folder:
            for name, content in build_context(self.image.folder, self.image.source).items():
                path = Path(folder, "context", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            secrets = build_secrets(self.image)
            for name, content in secrets.items():
                Path(folder, name).write_bytes(content)
            try:
                await transport.put(Path(folder), place)
                line = f"docker build {shlex.join(build_words(self.image, tuple(secrets)))} context"
                words = ("sh", "-c", f"cd {shlex.quote(place)} && {line}")
                process = await transport.start(
                    Command(words, {"DOCKER_BUILDKIT": "1"}), log=f"{place}/build.log", grace=BUILD_GRACE
                )
                try:
                    status = await self._patiently(docker, process.wait(), partial(_last_line, docker, place))
                finally:
                    await process.stop()
                if status != 0:
                    raise HostError(docker.host, await self._why(docker, place, status))
            finally:
                await transport.run(Command(("rm", "-rf", place)), timeout=SHORT)

    async def _patiently(self, docker: DockerHost, work: Awaitable[T], told: Callable[[], Awaitable[str]]) -> T:
        """Wait for work, and say now and then how far it is."""
        began, task = time.monotonic(), asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=SAY_EVERY)
                if not task.done():
                    seconds = time.monotonic() - began
                    self.say(f"{docker.host}: {self.image.reference}, {seconds:.0f} s: {await told()}")
            return task.result()
        finally:
            task.cancel()

    async def _why(self, docker: DockerHost, place: str, status: int | None) -> str:
        done = await docker.transport.run(Command(("tail", "-n", str(LAST_LINES), f"{place}/build.log")), timeout=SHORT)
        tail = "".join(f"\n    {line}" for line in done.stdout.splitlines())
        return f"image {self.image.reference} cannot be built from {self.image.folder}: exit code {status}{tail}"


async def _last_line(docker: DockerHost, place: str) -> str:
    """What a build printed last."""
    done = await docker.transport.run(Command(("tail", "-n", "1", f"{place}/build.log")), timeout=SHORT)
    return done.stdout.strip()[:LONGEST]


async def image_layers(docker: DockerHost, reference: str) -> list[str] | None:
    """What identifies an image on any host (its ID does not, after docker import); None: it is not there."""
    from docker.errors import ImageNotFound

    try:
        image = await docker.call(lambda client: client.images.get(reference))
    except ImageNotFound:
        return None
    return list(image.attrs["RootFS"]["Layers"])


def build_words(image: Image, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Options of `docker build`. Proxies are among docker's predefined arguments, which no image keeps."""
    settings = image.settings
    words = [f"--tag={image.reference}", f"--network={settings.network}", "--progress=plain"]
    if image.source.base:
        words.append(f"--build-arg=BASE_IMAGE={image.source.base}")
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        if value := getattr(settings, name):
            words.append(f"--build-arg={name}={value}")
    return (*words, *(f"--secret=id={name},src={name}" for name in secrets))


def build_secrets(image: Image) -> dict[str, bytes]:
    """Files that steps of a Dockerfile may mount: pip.conf and ca.pem, both in /run/secrets."""
    settings = image.settings
    secrets: dict[str, bytes] = {}
    lines = ["[global]"]
    if settings.index:
        lines.append(f"index-url = {settings.index}")
    if settings.ca_certificate:
        secrets["ca.pem"] = Path(settings.ca_certificate).expanduser().read_bytes()
        lines.append("cert = /run/secrets/ca.pem")
    if len(lines) > 1:
        secrets["pip.conf"] = "".join(f"{line}\n" for line in lines).encode()
    return secrets
