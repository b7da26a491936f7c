"""Collects the wheels of launcher and ranks with pip, for this Python and machine or for others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flagperf.config.parts.image import own_requirements
from flagperf.errors import ConfigError

# Packages that indexes have as source code only. They are pure Python: a wheel that is built here fits everywhere.
HYDRAS = "antlr4-python3-runtime"
SOURCES = (f"{HYDRAS}==4.9.*", "jieba>=0.42.1,<0.43")
EPOCH = "315532800"  # 1980-01-01, the time of files in a wheel that is built here
SHOWN = ("Downloading ", "Using cached ", "Processing ", "Building wheel for ")  # lines of pip that show progress
LAST_LINES = 4
MANYLINUX = re.compile(r"manylinux_2_(?P<glibc>\d+)_(?P<machine>\w+)")
OLDER = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}  # glibc 2.x → older name of the tag
OLDEST = 5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    """Pythons and machine that the wheels are for.

    Args:
        pythons: versions such as "3.11"; the first is the launcher's.
        platform: a tag such as manylinux_2_28_x86_64; None: this machine.
    """

    pythons: tuple[str, ...]
    platform: str | None = None

    def pip_options(self, python: str) -> list[str]:
        """Options of `pip download` for one of the Pythons; none for the Python that runs flagperf."""
        if self.platform is None and python == this_python():
            return []
        tags = platform_tags(self.platform) if self.platform else []
        return ["--implementation=cp", f"--python-version={python}", *(f"--platform={tag}" for tag in tags)]


def this_python() -> str:
    """Version of the Python that runs flagperf: 3.11."""
    return ".".join(map(str, sys.version_info[:2]))


def platform_tags(platform: str) -> list[str]:
    """All tags that a platform accepts: manylinux_2_28_x86_64, and those of older versions of glibc."""
    match = MANYLINUX.fullmatch(platform)
    if match is None:
        return [platform]
    tags = []
    for minor in range(int(match["glibc"]), OLDEST - 1, -1):
        tags += [f"manylinux_2_{minor}_{match['machine']}"]
        tags += [f"{OLDER[minor]}_{match['machine']}"] if minor in OLDER else []
    return tags


def collect(folder: Path, requirements: Sequence[str], target: Target, say: Say) -> None:
    """Bring the wheels of these requirements and of all that they need into a folder.

    Args:
        folder: holds flagperf's own wheel already.
        requirements: lines of a requirements file.

    Raises:
        ConfigError: pip cannot find or make a wheel.
    """
    listed = folder / "requirements.txt"
    try:
        listed.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        pip(["wheel", "--no-deps", "--no-cache-dir", f"--wheel-dir={folder}", *_sources(requirements)], say)
        for python in target.pythons:
            options = [f"--dest={folder}", "--only-binary=:all:", *target.pip_options(python)]
            pip(["download", *options, "-r", str(listed)], say, folder)
    finally:
        listed.unlink(missing_ok=True)


def pip(words: Sequence[str], say: Say, links: Path | None = None) -> None:
    """Run pip with the configuration of the user. `links`: a folder with wheels, in addition to the index.

    Raises:
        ConfigError: pip fails, with its last lines.
    """
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    argv = [sys.executable, "-m", "pip", *words, "--no-input", "--progress-bar=off", "--disable-pip-version-check"]
    argv += [f"--find-links={links}"] if links else []
    lines: list[str] = []
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    ) as process:
        assert process.stdout is not None
        for line in map(str.strip, process.stdout):
            lines.append(line)
            if line.startswith(SHOWN):
                say(f"pip: {line.partition(' (from ')[0]}")
    if process.returncode:
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")] or lines[-LAST_LINES:]
        raise ConfigError(
            f"pip {words[0]} failed",
            given="\n".join(errors) or f"exit code {process.returncode}",
            advice="pip reads PIP_INDEX_URL, PIP_FIND_LINKS and pip.conf; python= and platform= name the target",
        )


def _sources(requirements: Sequence[str]) -> Iterator[str]:
    """The lines of SOURCES that are needed: Hydra's parser, and those of an extra of flagperf."""
    extras = re.findall(r"flagperf\[([\w-]+)\]", " ".join(requirements))
    needed = " ".join(line for extra in extras for line in own_requirements(extra))
    for line in SOURCES:
        package = re.split(r"[=<>]", line)[0]
        if package == HYDRAS or re.search(rf"(^| ){package}\b", needed):
            yield line
