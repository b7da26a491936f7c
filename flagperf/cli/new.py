"""flagperf new: make the files of a new case or vendor, which work at once

usage: flagperf new case|vendor NAME [into=FOLDER]

words:
  case         a small case in Python: network, data, task, sample data, a tiny size
  vendor       a vendor with one product, one tuning and a tool; the CPU stands in for the chip
  NAME         small letters, digits and _, a letter first; the name of the case or vendor
  into=FOLDER  the new folder; NAME without it. flagperf never writes into a folder that exists

examples:
  flagperf new case spirals
  flagperf new vendor acme into=acme

exit codes: 0, 2
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
from pathlib import Path

from flagperf.cli.words import expect, paths_and_options
from flagperf.config.files import search_path
from flagperf.errors import ConfigError

TEMPLATES = Path(__file__).with_name("templates")
PLACEHOLDER = "NAME"
GROUPS = {"case": "model", "vendor": "vendor"}  # kind → the config group that must not have the name yet
COMMANDS = {
    "case": ("flagperf --config-dir {folder} model={name} code_dir={folder}/code nproc=2",),
    "vendor": (
        "flagperf --config-dir {folder} check vendor={name}",
        'PATH="$PWD"/{folder}/bin:$PATH flagperf --config-dir {folder} vendor={name} hardware={name}1 '
        "runtime=process size=tiny max_steps=30",
    ),
}


def main(options: argparse.Namespace) -> int:
    """Write the files, and print the commands to try next."""
    words, given = paths_and_options("new", options.arguments, ("into",))
    expect("new", words, 2, "case or vendor, and a name")
    kind, name = map(str, words)
    if kind not in GROUPS:
        raise ConfigError("flagperf new cannot make this", given=kind, allowed=" or ".join(GROUPS))
    _check_name(kind, name)
    folder = Path(given.get("into", name))
    if folder.exists():
        raise ConfigError("the folder exists", where=str(folder), advice="into=FOLDER names another folder")
    write(kind, name, folder)
    print(f"{folder}: {sum(path.is_file() for path in folder.rglob('*'))} files. Try:")
    for command in COMMANDS[kind]:
        print("  " + command.format(folder=shlex.quote(str(folder)), name=name))
    return 0


def write(kind: str, name: str, folder: Path) -> None:
    """Copy the template of `kind` to `folder`, with `name` in the place of the placeholder, also in file names."""
    template = TEMPLATES / kind
    for source in sorted(path for path in template.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        target = folder / str(source.relative_to(template)).replace(PLACEHOLDER, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text(encoding="utf-8").replace(PLACEHOLDER, name), encoding="utf-8")
        shutil.copymode(source, target)


def _check_name(kind: str, name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError("not a name", given=name, allowed="small letters, digits and _, a letter first")
    if name in search_path.options(GROUPS[kind], search_path.search_path([])):
        raise ConfigError(f"flagperf has a {kind} of this name", given=name, advice="choose another name")
