"""Builds an image on a host, with the host's docker command and BuildKit.

Package index and certificate reach the build as build secrets. No image keeps a build secret.
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from flagperf.config.parts.image import build_context
from flagperf.config.schema.platform import Image
from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts.leftovers import claim
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport
from flagperf.secret import Mask, logins
from flagperf.user import user_path

BUILD = script(__file__, "build.sh")
LOG = "image_build.log"  # in the log folder of the building node
GRACE = 5.0  # seconds between SIGTERM and SIGKILL of a build
LAST_LINES = 20  # of the log, in the message of a failed build
SHORT = 30.0  # seconds for removing files
PROXIES = ("http_proxy", "https_proxy", "no_proxy")


class ImageBuild:
    """One build, in a temporary folder of the host.

    Args:
        log: file of this machine for the output of the build.
    """

    def __init__(self, image: Image, transport: Transport, work_dir: str, log: Path) -> None:
        self._image, self._transport, self._log = image, transport, log
        self._mask = Mask(url for url in (image.settings.index, *_proxies(image).values()) if url and logins(url))
        self._secrets = build_secrets(image)
        tag = image.reference.partition(":")[2]
        self._folder = f"{work_dir}/build-{tag}-{token_hex(2)}"  # another run may build the same image at the same time

    async def run(self) -> None:
        """Build the image.

        Raises:
            HostError: the build failed.
        """
        await claim(self._transport, self._folder)
        try:
            await self._send()
            status = await self._build()
        finally:
            await self._transport.run(Command(("rm", "-rf", self._folder)), timeout=SHORT)
        if status != 0:
            problem = f"image {self._image.reference} cannot be built from {self._image.folder}: exit code {status}"
            tail = "".join(f"\n    {line}" for line in self._lines()[-LAST_LINES:])
            raise HostError(self._transport.host, problem + tail, advice=f"the whole log: {self._log}")

    async def last_line(self) -> str:
        """The last line of the build's output so far."""
        await self._keep_log()
        return "".join(self._lines()[-1:]).strip()

    async def _send(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            lay_out(self._image, Path(folder, "context"))
            for name, content in self._secrets.items():
                Path(folder, name).write_bytes(content)
            Path(folder, "proxies").write_text(proxies(self._image))
            await self._transport.put(Path(folder), self._folder)

    async def _build(self) -> int | None:
        argv = build_argv(self._image, tuple(self._secrets))
        command = replace(shell(BUILD, self._folder, *argv), env={"DOCKER_BUILDKIT": "1"})
        process = await self._transport.start(command, log=f"{self._folder}/{LOG}", grace=GRACE)
        try:
            return await process.wait()
        finally:
            await process.stop()
            await self._keep_log()

    async def _keep_log(self) -> None:
        with contextlib.suppress(HostError, FileNotFoundError):  # the host is lost, or the build has not begun
            await self._transport.get(f"{self._folder}/{LOG}", self._log)
            self._mask.file(self._log)

    def _lines(self) -> list[str]:
        return self._log.read_text("utf-8", errors="replace").splitlines() if self._log.exists() else []


def lay_out(image: Image, folder: Path) -> None:
    """Write the folder of a build's files. Large files become links; sending the folder follows them."""
    assert image.folder is not None
    for name, content in build_context(image.folder, image.source, image.extra).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.symlink_to(content.resolve())


def build_argv(image: Image, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The docker command. Proxies are among docker's predefined arguments, and no image keeps these.

    The values of the proxies come from the environment. A proxy may hold a password, and every user of the host can see
    the argv of a command.
    """
    argv = ["docker", "build", f"--tag={image.reference}", f"--network={image.settings.network}", "--progress=plain"]
    if image.source.base:
        argv.append(f"--build-arg=BASE_IMAGE={image.source.base}")
    argv += [f"--build-arg={name}" for name in PROXIES if getattr(image.settings, name)]
    return (*argv, *(f"--secret=id={name},src={name}" for name in secrets), "context")


def proxies(image: Image) -> str:
    """Lines of shell that set the proxies."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in _proxies(image).items())


def _proxies(image: Image) -> dict[str, str]:
    return {name: value for name in PROXIES if (value := getattr(image.settings, name))}


def build_secrets(image: Image) -> dict[str, bytes]:
    """Files that the steps of a Dockerfile may mount in /run/secrets: pip.conf and ca.pem."""
    settings = image.settings
    secrets: dict[str, bytes] = {}
    lines = ["[global]"]
    if settings.index:
        lines.append(f"index-url = {settings.index}")
    if settings.ca_certificate:
        secrets["ca.pem"] = user_path(settings.ca_certificate).read_bytes()
        lines.append("cert = /run/secrets/ca.pem")
    if len(lines) > 1:
        secrets["pip.conf"] = "".join(f"{line}\n" for line in lines).encode()
    return secrets
