"""Which image a run uses: chosen from what the vendor's and the cluster's files say. No docker is asked."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from flagperf.config.files.search_path import VENDORS
from flagperf.config.parts.versions import is_older, numbers
from flagperf.config.schema.kubernetes import Kubernetes
from flagperf.config.schema.platform import Framework, Image, ImageSettings, ImageSource, Vendor
from flagperf.contract.build import Where
from flagperf.errors import ConfigError

DOCKERFILE = "Dockerfile"
ON_BASE = VENDORS / "on_base"  # Dockerfiles, a folder a framework, that build on the image that `base` names
REQUIREMENTS = "requirements.txt"  # what a training process needs; flagperf's own unless the vendor has the file
MORE_REQUIREMENTS = "more-requirements.txt"  # vendor.image.<framework>.requirements
CHUNK = 1 << 20  # bytes of a file that are read at a time
STAND_IN = "registry.example.com/flagperf:image"  # for an image of pods that is not named: only a dry run shows it


def choose_image(vendor: Vendor, framework: Framework, settings: ImageSettings, where: Where) -> Image:
    """The image for a vendor's framework, in the version that was asked for.

    Raises:
        ConfigError: the policy lacks something, such as a Dockerfile; a ready image is to get packages; or the image
            is for a version of the framework that the trainer does not run on.
    """
    entry, version = entry_of(vendor, framework)
    source, extra = vendor.image.get(entry) or ImageSource(), framework.extra
    folder = _folder(vendor, framework, entry, source)
    buildable = (folder / DOCKERFILE).is_file()
    built = source.folder or (buildable and (source.base or not source.name))
    policy = settings.policy or ("build" if built else "present")
    key = f"vendor.image.{entry}"

    def refused(problem: str, key: str, given: object = None, advice: str | None = None, **more: str) -> ConfigError:
        return ConfigError(problem, where=where(key), key=key, given=given, advice=advice, **more)

    lowest = next((framework.needs[name] for name in framework.packages if name in framework.needs), None)
    if version and lowest and is_older(version, lowest):
        if entry not in vendor.image:
            problem = "the trainer does not run on this version"
            raise refused(problem, "framework.version", version, allowed=f"{lowest} or newer")
        problem = f"the image is for {framework.product} {version}, and the trainer needs {lowest} or newer"
        raise refused(problem, f"{key}.name", source.name, "take a newer image of the vendor's, if there is one")
    if policy == "build":
        if not buildable:
            wanted_by = f"{key}.folder" if source.folder else "cluster.image.policy"
            raise refused("there is no Dockerfile to build from", wanted_by, folder)
        certificate = settings.ca_certificate
        if certificate and not Path(certificate).expanduser().is_file():
            raise refused("there is no such file", "cluster.image.ca_certificate", certificate)
        source = replace(source, requirements=(*source.requirements, *vendor.extension.requirements))
        tag = content_tag(build_context(folder, source, extra), source)
        vendor_name = re.sub("[^a-z0-9]+", "-", vendor.name.lower())  # docker allows these characters in a name
        return Image(f"flagperf-{vendor_name}-{framework.name}:{tag}", policy, settings, folder, source, extra)
    if not source.name:
        advice = f"name the vendor's image in {key}.name, or add {folder / DOCKERFILE}"
        if buildable:
            advice = f"policy {policy} needs a ready image in {key}.name; policy build makes one, of {folder}"
        what = f"{framework.name} {framework.version}" if framework.version else framework.name
        known = " or ".join(versions_of(vendor, framework))
        others = {"allowed": f"framework.version={known}"} if known else {}
        raise refused(f"vendor {vendor.name} names no image for {what}", f"{key}.name", advice=advice, **others)
    if source.requirements:
        problem = f"image {source.name} is used as it is, so no packages can be added"
        advice = f"take an image that has them, or build on it: {key}.base={source.name}"
        raise refused(problem, f"{key}.requirements", ", ".join(source.requirements), advice)
    if policy == "load" and not (settings.archive and Path(settings.archive).expanduser().is_file()):
        raise refused("there is no image archive to load", "cluster.image.archive", settings.archive or "null")
    return Image(source.name, policy, settings, None, source)


def pod_image(vendor: Vendor, framework: Framework, pods: Kubernetes, settings: ImageSettings, where: Where) -> Image:
    """The image of pods: the one that the cluster's file names, else the vendor's ready one, else STAND_IN.

    Raises:
        ConfigError: the vendor's is for a version of the framework that the trainer does not run on.
    """
    if pods.image:
        return Image(pods.image, "present", settings)
    entry, _ = entry_of(vendor, framework)
    if (source := vendor.image.get(entry)) and source.name:
        return choose_image(vendor, framework, replace(settings, policy="present"), where)
    return Image(STAND_IN, "present", settings)


def _folder(vendor: Vendor, framework: Framework, entry: str, source: ImageSource) -> Path:
    """The folder of the Dockerfile: the one that is named, the vendor's own, or that which builds on any base."""
    if source.folder:
        return Path(source.folder).expanduser()
    own, shared = VENDORS / vendor.name / "docker" / entry, ON_BASE / framework.name
    there = [folder for folder in (own, *([shared] if source.base else [])) if (folder / DOCKERFILE).is_file()]
    return there[0] if there else own


def entry_of(vendor: Vendor, framework: Framework) -> tuple[str, str | None]:
    """Key of `vendor.image` for a framework, and the version that it tells: pytorch, or pytorch_2_1 and 2.1.

    The version that was asked for; else the key without one, where there is one, or else the newest.
    """
    if framework.version is not None:
        return f"{framework.name}_{framework.version.replace('.', '_')}", framework.version
    known = versions_of(vendor, framework)
    if framework.name in vendor.image or not known:
        return framework.name, None
    newest = max(known, key=numbers)
    return known[newest], newest


def versions_of(vendor: Vendor, framework: Framework) -> dict[str, str]:
    """Version → key of `vendor.image`, of the images for a framework that are told apart by their versions."""
    return {version: key for key in vendor.image if (version := version_of(key)) and key.startswith(framework.name)}


def version_of(entry: str) -> str:
    """The version that a key of `vendor.image` tells: 2.1 of pytorch_2_1; "" of pytorch."""
    return entry.partition("_")[2].replace("_", ".")


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


@cache
def _own_requirements(extra: str | None) -> list[str]:
    """What flagperf's trainer needs, as pyproject.toml says it: always, and in the extra of a framework."""
    import importlib.metadata  # heavy, and needed for an image that is built

    found = []
    for line in importlib.metadata.requires("flagperf") or []:
        requirement, _, condition = (part.strip() for part in line.partition(";"))
        named = re.search(r"extra == ['\"]([\w-]+)['\"]", condition)
        if not named or named[1] == extra:
            found.append(requirement)
    return found
