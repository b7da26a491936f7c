"""flagperf pack: pack all that a job needs into a file, for a room without internet

usage: flagperf pack [OVERRIDES…] into=FILE.tar.zst|FILE.tar [python=VERSION] [platform=TAG]

The file has wheels for launcher and ranks, the image, sample data, a list of the full data, hashes, and install.sh.
pip and docker of this machine bring them, by their own configuration. The same inputs give the same bytes.

words:
  OVERRIDES…    the job, as in flagperf run: model=NAME vendor=NAME hardware=NAME framework=NAME runtime=NAME …
  into=FILE     the file; FILE.tar for a room without zstd
  python=3.11   the Python of the room, without it that of this flagperf; python=3.12,3.10: the second for an image that
                is built in the room
  platform=TAG  the machine of the room, such as manylinux_2_28_aarch64; without it this machine
  data_dir=PATH the full data: its files are listed with sizes and hashes, and not packed

options: --config-dir

examples:
  flagperf pack model=resnet50 vendor=cpu into=kit.tar.zst
  flagperf pack model=glm vendor=nvidia hardware=A100 python=3.10 into=kit.tar.zst

exit codes: 0, 2, 5
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.text import Text

from flagperf.cli.commit import commit
from flagperf.cli.data import can_read, compose_case, write_sample
from flagperf.cli.words import need, runs_and_overrides
from flagperf.config.compose import compose
from flagperf.contract.digest import sha256_of
from flagperf.contract.sample_data import sample_name
from flagperf.errors import ConfigError
from flagperf.kit.archive import SUFFIXES
from flagperf.kit.pack import Request, pack
from flagperf.kit.wheels import Target, this_python
from flagperf.run.command_file import key_of
from flagperf.run.console import Terminal, print_unfolded
from flagperf.user import user_path

MIB = 1 << 20


def main(options: argparse.Namespace) -> int:
    """Print the progress, then the size of each part of the kit."""
    paths, values, overrides = runs_and_overrides(options.arguments, ("into", "python", "platform"))
    if paths:
        raise ConfigError("pack takes overrides and into=FILE", given=" ".join(map(str, paths)))
    need("pack", ("into",), values)
    into = _checked_target(values["into"])
    target = Target(_pythons(values.get("python", this_python())), values.get("platform"))
    job = compose([*overrides, "dry_run=true"], options.config_dir)
    other_words = [word for word in overrides if key_of(word) != "size"]
    full = compose([*other_words, "size=full", "dry_run=true"], options.config_dir)
    began, terminal = time.monotonic(), Terminal()

    def say(line: str) -> None:
        terminal.print(Text(f"{time.monotonic() - began:7.1f} s  {line}"), soft_wrap=True)

    sample = partial(_sample, overrides, options.config_dir)
    sizes = pack(Request(job, full, tuple(overrides), target, commit(), sample), into, say)
    for part, size in sizes.items():
        print_unfolded(Text(f"{size / MIB:9,.1f} MiB  {part}"))
    print_unfolded(Text(f"{into}: {into.stat().st_size / MIB:,.1f} MiB. In the room: tar -xf {into.name}"))
    print_unfolded(Text(f"first compare sha256sum {into.name}: {sha256_of(into)}"))
    print_unfolded(Text("then sh flagperf-kit/install.sh"))
    return 0


def _sample(overrides: Sequence[str], config_dirs: Sequence[Path], folder: Path) -> str:
    """Write the sample data of the case into a folder; returns the reason where nothing is written."""
    case = [word for word in overrides if word.startswith(("model=", "framework="))]
    job = compose_case("sample", [*case, f"data_dir={folder}"], config_dirs)
    if not job.data.get("sample"):
        return "the case has none"
    if not can_read(job):
        return f"left to the first run: no {job.framework.product} on this machine makes it"
    name = sample_name(job.case, job.data["sample"])
    write_sample(compose_case("sample", [*case, f"data_dir={folder / name}"], config_dirs))
    return ""


def _checked_target(given: str) -> Path:
    """The path of the kit. Raises ConfigError where no file can be written there."""
    into = user_path(given).absolute()
    if not into.name.endswith(SUFFIXES) or into.name in SUFFIXES:
        raise ConfigError(
            "unknown format", key="into", given=given, allowed=" or ".join(f"FILE{end}" for end in SUFFIXES)
        )
    if into.exists() or into.is_symlink():
        raise ConfigError(
            "this file exists already", key="into", given=given, advice="remove it, or choose another name"
        )
    if not into.parent.is_dir():
        raise ConfigError("no such folder", key="into", given=into.parent)
    return into


def _pythons(given: str) -> tuple[str, ...]:
    """Versions such as 3.11, separated by commas."""
    versions = tuple(given.split(","))
    if not all(re.fullmatch(r"3\.\d+", version) for version in versions):
        raise ConfigError(
            "no version of Python", key="python", given=given, allowed="3.10, 3.11 …, or several: 3.12,3.10"
        )
    return versions
