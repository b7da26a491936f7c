"""Brings the image of a job into a kit: as `docker save` writes it, or as the files that it is built from."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.schema.platform import Image
from flagperf.docker.image_build import lay_out
from flagperf.errors import ConfigError
from flagperf.user import user_path

ARCHIVE = "image.tar"
CONTEXT = "image"  # folder of a build's files
MIB = 1 << 20

Say = Callable[[str], None]


@dataclass(frozen=True)
class PackedImage:
    """An image in a kit."""

    reference: str
    identity: str | None = None  # sha256:… of its configuration; None: it is built in the room
    digests: tuple[str, ...] = ()  # name@sha256:… of the registries that it came from


DAEMON, ABSENT = "Error response from daemon", "No such"  # words of the docker command


def add_image(image: Image, folder: Path, say: Say) -> PackedImage:
    """Write the image of a job into a folder. Large files become links, which the archive follows.

    An image that this machine's docker has is saved. A named image is pulled first. Of a Dockerfile whose image is not
    here, the files are taken.

    Raises:
        ConfigError: the image is neither here nor in its registry, or docker does not answer.
    """
    if image.policy == "load" and image.settings.archive:
        say(f"image {image.reference}: {image.settings.archive}")
        (folder / ARCHIVE).symlink_to(user_path(image.settings.archive).absolute())
        return PackedImage(image.reference)
    known = inspect(image.reference)
    if known is None and image.policy == "build":
        say(f"image {image.reference} is not on this machine: its Dockerfile and wheels are packed")
        lay_out(image, folder / CONTEXT)
        return PackedImage(image.reference)
    if known is None:
        say(f"image {image.reference}: docker pull")
        _docker("pull", "--quiet", image.reference)
        known = inspect(image.reference)
    if known is None:
        raise _refused("image inspect", f"no image {image.reference} after docker pull")
    say(f"image {image.reference}: docker save, {known['Size'] / MIB:,.0f} MiB")
    _docker("save", f"--output={folder / ARCHIVE}", image.reference)
    return PackedImage(image.reference, known["Id"], tuple(sorted(known.get("RepoDigests") or ())))


def inspect(reference: str) -> dict[str, Any] | None:
    """What docker on this machine knows of an image; None: docker is not here, or has no such image.

    Raises:
        ConfigError: docker answers, but refuses to show the image.
    """
    try:
        done = subprocess.run(
            ("docker", "image", "inspect", reference), capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:
        return None
    if done.returncode and DAEMON in done.stderr and ABSENT not in done.stderr:
        raise _refused("image inspect", done.stderr.strip())
    answer: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return answer[0] if answer else None


def _docker(*words: str) -> None:
    try:
        done = subprocess.run(("docker", *words), capture_output=True, text=True, errors="replace", check=False)
        problem = (done.stderr.strip().splitlines() or ["no output"])[-1] if done.returncode else ""
    except OSError as error:
        problem = f"the docker command: {error.strerror}"
    if problem:
        raise _refused(words[0], problem)


def _refused(verb: str, problem: str) -> ConfigError:
    advice = "load the image on this machine, or let docker here reach its registry"
    return ConfigError(f"docker {verb} failed", key="vendor.image", given=problem, advice=advice)
