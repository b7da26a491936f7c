"""Writes the kit of a job."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flagperf import __version__
from flagperf.config.parts.image import entry_of
from flagperf.config.rules.own_code import USUAL_PYTHON
from flagperf.config.schema.values import JobConfig
from flagperf.contract.digest import sha256_of
from flagperf.kit import archive, data, images, wheels
from flagperf.kit.wheel import NAME, wheel

TOP = "flagperf-kit"  # the folder in the archive
WHEELS, SAMPLE = "wheels", "sample"  # folders in it
VALUES, MANIFEST, DATA, SUMS = "kit.sh", "manifest.json", "data.json", "SHA256SUMS"  # files in it
INSTALL = Path(__file__).with_name("install.sh")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What goes into a kit.

    Args:
        full: the job in its full size, for the list of its data.
        overrides: the words that describe the job.
        commit: of this flagperf, for `flagperf --version` in the room.
        write_sample: writes sample data into a folder, and returns a remark where it cannot.
    """

    job: JobConfig
    full: JobConfig
    overrides: tuple[str, ...]
    target: wheels.Target
    commit: str
    write_sample: Callable[[Path], str]


def pack(request: Request, into: Path, say: Say) -> Mapping[str, int]:
    """Write a kit; returns the number of bytes of each of its parts. The same inputs give the same bytes.

    The parts are collected in a temporary folder beside `into`, which needs as much room as the kit itself.

    Raises:
        ConfigError: pip or docker cannot bring a part, or the kit cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix=".flagperf-pack-", dir=into.parent) as temporary:
        folder = Path(temporary)
        (folder / WHEELS).mkdir()
        (folder / WHEELS / NAME).write_bytes(wheel(request.commit))
        wheels.collect(folder / WHEELS, requirements(request.job), request.target, say)
        job = request.job
        image = images.add_image(job.image, folder, say) if job.image is not None else None
        remark = request.write_sample(folder / SAMPLE)
        say(f"sample data: {remark or ', '.join(path.name for path in (folder / SAMPLE).iterdir())}")
        _write(folder / DATA, data.full_data(request.full, say))
        (folder / VALUES).write_text(_values(request, image), encoding="utf-8")
        shutil.copyfile(INSTALL, folder / INSTALL.name)
        _write(folder / MANIFEST, _manifest(request, image, folder, remark))
        sums = {name: sha256_of(path) for name, path in _files(folder).items()}
        (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()), encoding="utf-8")
        sizes = _sizes(folder)
        say(f"writing {into}")
        archive.write(folder, into, TOP)
    return sizes


def requirements(job: JobConfig) -> list[str]:
    """Lines of a requirements file: flagperf with the packages of the ranks, and those of the vendor.

    A saved image has the packages of its ranks, and so has the Python that runtime.python names. An image that is built
    in the room takes them from the wheels.
    """
    in_image = job.image is not None and (job.image.policy != "build" or images.inspect(job.image.reference))
    if in_image or (job.image is None and job.runtime.python not in USUAL_PYTHON):
        return [f"flagperf=={__version__}"]
    source = job.vendor.image.get(entry_of(job.vendor, job.framework)[0])
    vendor_packages = source.requirements if source else ()
    return [f"flagperf[{job.framework.extra}]=={__version__}", *vendor_packages, *job.vendor.extension.requirements]


def _values(request: Request, image: images.PackedImage | None) -> str:
    """The variables of install.sh."""
    job = request.job
    values = {
        "KIT_PYTHON": request.target.pythons[0],
        "KIT_REQUIREMENTS": " ".join(requirements(job) if image is None else [f"flagperf=={__version__}"]),
        "KIT_IMAGE": image.reference if image else "",
        "KIT_BASE": (job.image.source.base or "") if job.image else "",
        "KIT_COMMAND": shlex.join(request.overrides),
        # A framework that usually has an environment of its own is in the launcher's.
        "KIT_NAMES_PYTHON": "yes" if image is None and job.framework.python else "",
    }
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def _manifest(request: Request, image: images.PackedImage | None, folder: Path, remark: str) -> dict[str, Any]:
    files = _files(folder)
    return {
        "flagperf": __version__,
        "commit": request.commit,
        "overrides": request.overrides,
        "python": request.target.pythons,
        "platform": request.target.platform or f"that of {os.uname().sysname} {os.uname().machine}",
        "requirements": requirements(request.job),
        "image": asdict(image) if image else None,
        "sample_data": remark or sorted(path.name for path in (folder / SAMPLE).iterdir()),
        "files": {name: path.stat().st_size for name, path in files.items()},
    }


def _files(folder: Path) -> dict[str, Path]:
    """Name → path of all files, sorted by name."""
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _sizes(folder: Path) -> dict[str, int]:
    """Part of the kit, the first word of its files' paths → bytes."""
    sizes: dict[str, int] = {}
    for name, path in _files(folder).items():
        part = name.split("/")[0]
        sizes[part] = sizes.get(part, 0) + path.stat().st_size
    return sizes


def _write(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
