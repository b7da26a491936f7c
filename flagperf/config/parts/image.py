"""Chooses the image of a run from the files of vendor and cluster, without docker."""

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
from flagperf.config.schema.values import Typed
from flagperf.contract.build import Where
from flagperf.contract.digest import sha256_of
from flagperf.errors import ConfigError
from flagperf.user import user_path

DOCKERFILE = "Dockerfile"
ON_BASE = VENDORS / "on_base"  # a folder for each framework, with a Dockerfile that builds on the image `base`
REQUIREMENTS = "requirements.txt"  # of a training process; the vendor's file, else flagperf's own list
MORE_REQUIREMENTS = "more-requirements.txt"  # vendor.image.<framework>.requirements
STAND_IN = "registry.example.com/flagperf:image"  # for a missing image, in a dry run


def choose_image(
    vendor: Vendor, framework: Framework, settings: ImageSettings, where: Where, *, dry_run: bool = False
) -> Image:
    """The image for a vendor's framework, in the requested version. In a dry run STAND_IN stands for a missing one.

    Raises:
        ConfigError: the policy needs a missing file, such as a Dockerfile; packages are requested for a ready image;
            the vendor's files name no image; or the trainer does not run on the image's version of the framework.
    """
    check_version(vendor, framework, where)
    entry = entry_of(vendor, framework)[0]
    key, extra = f"vendor.image.{entry}", framework.extra
    source = _without_earlier(vendor.image.get(entry) or ImageSource(), vendor, key, where)
    folder = _folder(vendor, framework, entry, source)
    buildable = (folder / DOCKERFILE).is_file()
    built = source.folder or (buildable and (source.base or not source.name))
    policy = settings.policy or ("build" if built else "present")

    def refused(problem: str, key: str, value: object = None, advice: str | None = None, **details: str) -> ConfigError:
        return ConfigError(problem, where=where(key), key=key, given=value, advice=advice, **details)

    if policy == "build":
        if not buildable:
            wanted_by = f"{key}.folder" if source.folder else "cluster.image.policy"
            raise refused("there is no Dockerfile to build from", wanted_by, folder)
        certificate = settings.ca_certificate
        if certificate and not user_path(certificate).is_file():
            raise refused("there is no such file", "cluster.image.ca_certificate", certificate)
        source = replace(source, requirements=(*source.requirements, *vendor.extension.requirements))
        tag = content_tag(build_context(folder, source, extra), source)
        vendor_name = re.sub("[^a-z0-9]+", "-", vendor.name.lower())  # docker allows these characters in a name
        return Image(f"flagperf-{vendor_name}-{framework.name}:{tag}", policy, settings, folder, source, extra)
    if not source.name:
        if dry_run and not settings.policy and framework.version is None:
            return Image(STAND_IN, "present", settings)
        advice = f"name the vendor's image in {key}.name, or an image to build on in {key}.base; read {page(vendor)}"
        if buildable:
            advice = f"policy {policy} needs a ready image in {key}.name; policy build makes one, of {folder}"
        wanted = f"{framework.name} {framework.version}" if framework.version else framework.name
        versions = " or ".join(versions_of(vendor, framework))
        alternatives = {"allowed": f"framework.version={versions}"} if versions else {}
        raise refused(f"vendor {vendor.name} names no image for {wanted}", f"{key}.name", advice=advice, **alternatives)
    if source.requirements:
        problem = f"image {source.name} is used as it is, so no packages can be added"
        advice = f"take an image that has them, or build on it: {key}.base={source.name}"
        raise refused(problem, f"{key}.requirements", ", ".join(source.requirements), advice)
    if policy == "load" and not (settings.archive and user_path(settings.archive).is_file()):
        raise refused("there is no image archive to load", "cluster.image.archive", settings.archive or "null")
    return Image(source.name, policy, settings, None, source)


def _without_earlier(source: ImageSource, vendor: Vendor, key: str, where: Where) -> ImageSource:
    """Without the build that the vendor's file describes, where a later file or the command line names an image."""
    file = f"vendor/{vendor.name}.yaml"
    if source.name is None or where(f"{key}.name").endswith(file):
        return source
    kept = ImageSource(name=source.name)
    for part in ("base", "folder", "requirements"):
        if not where(f"{key}.{part}").endswith(file):
            kept = replace(kept, **{part: getattr(source, part)})
    return kept


def check_version(vendor: Vendor, framework: Framework, where: Where) -> None:
    """Refuse a version of the framework that the trainer does not run on."""
    entry, version = entry_of(vendor, framework)
    lowest = _lowest(framework)
    if not (version and lowest and is_older(version, lowest)):
        return
    if entry not in vendor.image:
        problem, key = "the trainer does not run on this version", "framework.version"
        raise ConfigError(problem, where=where(key), key=key, given=version, allowed=f"{lowest} or newer")
    problem = f"the image is for {framework.product} {version}, and the trainer needs {lowest} or newer"
    key, advice = f"vendor.image.{entry}.name", "use a newer image of the vendor"
    raise ConfigError(problem, where=where(key), key=key, given=vendor.image[entry].name, advice=advice)


def _lowest(framework: Framework) -> str | None:
    """The oldest version of the framework on which the trainer runs; None: not stated."""
    return next((framework.needs[name] for name in framework.packages if name in framework.needs), None)


def image_note(image: Image | None, typed: Typed) -> str | None:
    """A line for a plan: the image is a stand-in, or its name says a version that a run would refuse."""
    vendor, framework, pods = typed.vendor, typed.framework, typed.cluster.kubernetes
    reference = image.reference if image else typed.runtime.image or ""
    if reference == STAND_IN and not pods:  # manifests name the key of pods
        problem = f"vendor {vendor.name} names no image for {framework.name}: {STAND_IN} stands for it"
        return f"{problem}, and a run would be refused ({page(vendor)})"
    named = re.search(rf"{framework.name}[-_:]?(\d+(?:\.\d+)+)", reference.rpartition("/")[2])
    lowest = _lowest(framework)
    if named and lowest and is_older(named[1], lowest):
        problem = f"image {reference}: by its name it has {framework.product} {named[1]}"
        return f"{problem}, and the trainer needs {lowest} or newer: a run would be refused ({page(vendor)})"
    return None


def page(vendor: Vendor) -> str:
    """The page about the vendor's images; of a vendor of the user's own, about how to add a vendor."""
    return f"vendors/{vendor.name}/README.md" if (VENDORS / vendor.name).is_dir() else "docs/adding-a-vendor.md"


def pod_image(vendor: Vendor, framework: Framework, pods: Kubernetes, settings: ImageSettings, where: Where) -> Image:
    """The image of pods: from the cluster's file, else the vendor's ready image, else STAND_IN.

    Raises:
        ConfigError: the trainer does not run on the version of the vendor's image.
    """
    if pods.image:
        return Image(pods.image, "present", settings)
    entry, _ = entry_of(vendor, framework)
    if (source := vendor.image.get(entry)) and source.name:
        return choose_image(vendor, framework, replace(settings, policy="present"), where)
    return Image(STAND_IN, "present", settings)


def _folder(vendor: Vendor, framework: Framework, entry: str, source: ImageSource) -> Path:
    """The folder of the Dockerfile: the configured folder, the vendor's own, or the one for any base image."""
    if source.folder:
        return user_path(source.folder)
    vendor_folder, shared = VENDORS / vendor.name / "docker" / entry, ON_BASE / framework.name
    candidates = [
        folder for folder in (vendor_folder, *([shared] if source.base else [])) if (folder / DOCKERFILE).is_file()
    ]
    return candidates[0] if candidates else vendor_folder


def entry_of(vendor: Vendor, framework: Framework) -> tuple[str, str | None]:
    """Key of `vendor.image` for a framework, and its version: pytorch and None, or pytorch_2_1 and 2.1.

    The requested version, else the key without a version if it exists, else the newest version.
    """
    if framework.version is not None:
        return f"{framework.name}_{framework.version.replace('.', '_')}", framework.version
    versions = versions_of(vendor, framework)
    if framework.name in vendor.image or not versions:
        return framework.name, None
    newest = max(versions, key=numbers)
    return versions[newest], newest


def versions_of(vendor: Vendor, framework: Framework) -> dict[str, str]:
    """Version → key of `vendor.image`, for the images of a framework with a version in their keys."""
    return {version: key for key in vendor.image if (version := version_of(key)) and key.startswith(framework.name)}


def version_of(entry: str) -> str:
    """The version in a key of `vendor.image`: "2.1" in pytorch_2_1; "" in pytorch."""
    return entry.partition("_")[2].replace("_", ".")


def build_context(folder: Path, source: ImageSource, extra: str | None = None) -> Mapping[str, Path | bytes]:
    """The files of a build: path → file or content, from the vendor's folder and the requirements.

    Links are followed, also links to folders.
    """
    paths = (Path(root, name) for root, _, names in os.walk(folder, followlinks=True) for name in names)
    files = (path for path in sorted(paths) if path.is_file() and "__pycache__" not in path.parts)
    context: dict[str, Path | bytes] = {path.relative_to(folder).as_posix(): path for path in files}
    context.setdefault(REQUIREMENTS, "".join(f"{line}\n" for line in own_requirements(extra)).encode())
    context[MORE_REQUIREMENTS] = "".join(f"{line}\n" for line in source.requirements).encode()
    return context


def content_tag(context: Mapping[str, Path | bytes], source: ImageSource) -> str:
    """Twelve hexadecimal digits of a hash over the files of a build.

    Of a file's permissions only "executable" counts, because no other permission reaches the build.
    """
    digest = hashlib.sha256(repr(source.base).encode())
    for name, content in context.items():
        if isinstance(content, bytes):
            digest.update(repr((name, hashlib.sha256(content).hexdigest())).encode())
        else:
            status = content.stat()
            fingerprint = _fingerprint(content, status.st_size, status.st_mtime_ns)
            digest.update(repr((name, fingerprint) + ("executable",) * bool(status.st_mode & 0o111)).encode())
    return digest.hexdigest()[:12]


@cache
def _fingerprint(path: Path, _size: int, _mtime_ns: int) -> str:
    """SHA-256 of a file. Cached, because a file may have gigabytes and each job of a sweep needs the hash."""
    return sha256_of(path)


@cache
def own_requirements(extra: str | None) -> list[str]:
    """The requirements of flagperf's package, with those of an extra."""
    import importlib.metadata  # heavy; only builds need the module

    requirements = []
    for line in importlib.metadata.requires("flagperf") or []:
        requirement, _, condition = (part.strip() for part in line.partition(";"))
        extra_match = re.search(r"extra == ['\"]([\w-]+)['\"]", condition)
        if not extra_match or extra_match[1] == extra:
            requirements.append(requirement)
    return requirements
