"""Which image a run uses: chosen from what the vendor's and the cluster's files say. No docker is asked."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from flagperf.config.platform import Image, ImageSettings, ImageSource, Vendor
from flagperf.config.provenance import Where
from flagperf.config.search_path import VENDORS
from flagperf.errors import ConfigError

DOCKERFILE = "Dockerfile"
REQUIREMENTS = "requirements.txt"  # what a training process needs; flagperf's own unless the vendor has the file
MORE_REQUIREMENTS = "more-requirements.txt"  # vendor.image.<framework>.requirements
CHUNK = 1 << 20  # bytes of a file that are read at a time


def choose_image(
    vendor: Vendor, framework: str, settings: ImageSettings, where: Where, extra: str | None = None
) -> Image:
    """The image for a vendor's framework, which needs what `extra` of flagperf's package names.

    Raises:
        ConfigError: the policy lacks something, such as a Dockerfile; or a ready image is to get packages.
    """
    source = vendor.image.get(framework) or ImageSource()
    folder = Path(source.folder).expanduser() if source.folder else VENDORS / vendor.name / "docker" / framework
    buildable = (folder / DOCKERFILE).is_file()
    policy = settings.policy or ("build" if source.folder or (buildable and not source.name) else "present")
    key = f"vendor.image.{framework}"

    def refused(problem: str, key: str, given: object = None, advice: str | None = None) -> ConfigError:
        return ConfigError(problem, where=where(key), key=key, given=given, advice=advice)

    if policy == "build":
        if not buildable:
            wanted_by = f"{key}.folder" if source.folder else "cluster.image.policy"
            raise refused("there is no Dockerfile to build from", wanted_by, folder)
        certificate = settings.ca_certificate
        if certificate and not Path(certificate).expanduser().is_file():
            raise refused("there is no such file", "cluster.image.ca_certificate", certificate)
        tag = content_tag(build_context(folder, source, extra), source)
        maker = re.sub("[^a-z0-9]+", "-", vendor.name.lower())  # what docker takes in a name
        return Image(f"flagperf-{maker}-{framework}:{tag}", policy, settings, folder, source, extra)
    if not source.name:
        advice = f"name the vendor's image in {key}.name, or add {folder / DOCKERFILE}"
        if buildable:
            advice = f"policy {policy} needs a ready image in {key}.name; policy build makes one, of {folder}"
        raise refused(f"vendor {vendor.name} names no image for {framework}", f"{key}.name", advice=advice)
    if source.requirements:
        problem = f"image {source.name} is used as it is, so no packages can be added"
        advice = f"take an image that has them, or build on it: {key}={{base: {source.name}, folder: …}}"
        raise refused(problem, f"{key}.requirements", ", ".join(source.requirements), advice)
    if policy == "load" and not (settings.archive and Path(settings.archive).expanduser().is_file()):
        raise refused("there is no image archive to load", "cluster.image.archive", settings.archive or "null")
    return Image(source.name, policy, settings, None, source)


def build_context(folder: Path, source: ImageSource, extra: str | None = None) -> Mapping[str, Path | bytes]:
    """All that goes into a build: the files of the vendor's folder and the requirements, as path → file or content.

    Links are followed, also those to folders.
    """
    found = (Path(root, name) for root, _, names in os.walk(folder, followlinks=True) for name in names)
    files = (path for path in sorted(found) if path.is_file() and "__pycache__" not in path.parts)
    context: dict[str, Path | bytes] = {path.relative_to(folder).as_posix(): path for path in files}
    context.setdefault(REQUIREMENTS, "".join(f"{line}\n" for line in _own_requirements(extra)).encode())
    context[MORE_REQUIREMENTS] = "".join(f"{line}\n" for line in source.requirements).encode()
    return context


def content_tag(context: Mapping[str, Path | bytes], source: ImageSource) -> str:
    """Twelve hexadecimal digits that change with anything that goes into the image.

    Of a file's permissions only "executable" counts, because only that reaches the build.
    """
    digest = hashlib.sha256(repr(source.base).encode())
    for name, content in context.items():
        if isinstance(content, bytes):
            digest.update(repr((name, hashlib.sha256(content).hexdigest())).encode())
        else:
            found = content.stat()
            fingerprint = _fingerprint(content, found.st_size, found.st_mtime_ns)
            digest.update(repr((name, fingerprint) + ("executable",) * bool(found.st_mode & 0o111)).encode())
    return digest.hexdigest()[:12]


@cache
def _fingerprint(path: Path, _size: int, _mtime_ns: int) -> str:
    """SHA-256 of a file. It is kept, because a file may have gigabytes and each job of a sweep asks for it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _own_requirements(extra: str | None) -> list[str]:
    """What flagperf's trainer needs, as pyproject.toml says it: always, and in the extra of a framework."""
    found = []
    for line in importlib.metadata.requires("flagperf") or []:
        requirement, _, condition = (part.strip() for part in line.partition(";"))
        named = re.search(r"extra == ['\"](\w+)['\"]", condition)
        if not named or named[1] == extra:
            found.append(requirement)
    return found
