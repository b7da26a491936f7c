"""This flagperf as a wheel, because no package index has it. It works in a checkout and in an installation."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution

from flagperf import __version__
from flagperf.config.files.search_path import CASE_PAGES, CHINESE_CASE_PAGES, CONF, VENDORS
from flagperf.contract.sent_code import NO_CODE, files, package_folder

NAME = f"flagperf-{__version__}-py3-none-any.whl"
INFO = f"flagperf-{__version__}.dist-info"
COMMIT = "commit.txt"  # of flagperf/cli/commit.py
WHEEL = "Wheel-Version: 1.0\nGenerator: flagperf\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
DATA = {  # as pyproject.toml says
    "flagperf/conf": CONF,
    "flagperf/vendors": VENDORS,
    "flagperf/docs/cases": CASE_PAGES,
    "flagperf/docs/zh/cases": CHINESE_CASE_PAGES,
}


def wheel(commit: str = "") -> bytes:
    """The wheel. The same code gives the same bytes at any time. `commit`: for `flagperf --version`."""
    stream, record = io.BytesIO(), []
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _contents(commit):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        archive.writestr(zipfile.ZipInfo(f"{INFO}/RECORD"), "".join([*record, f"{INFO}/RECORD,,\n"]))
    return stream.getvalue()


def _contents(commit: str) -> Iterator[tuple[str, bytes]]:
    packages = {"flagperf": package_folder("flagperf"), "flagperf/cases": package_folder("cases")}
    for name, folder in (*packages.items(), *DATA.items()):
        for path in files(folder, NO_CODE if name == "flagperf" else ()):
            yield f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()
    if commit:
        yield f"flagperf/{COMMIT}", f"{commit}\n".encode()
    installed = distribution("flagperf")
    for name in ("METADATA", "entry_points.txt"):
        yield f"{INFO}/{name}", (installed.read_text(name) or "").encode()
    yield f"{INFO}/WHEEL", WHEEL.encode()
