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
import keyword
import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

from flagperf.cli.words import expect, paths_and_options
from flagperf.config.files import search_path
from flagperf.errors import ConfigError

TEMPLATES = Path(__file__).with_name("templates")
PLACEHOLDER = "NAME"
# In a file: alone, and not within a word such as IFNAME. Before a further word of a variable it is in capitals.
IN_TEXT = re.compile(rf"(?<![A-Za-z_]){PLACEHOLDER}(?=(_[A-Z])|(?![A-Za-z_]))")
GROUPS = {"case": "model", "vendor": "vendor"}  # kind → the config group that must not have the name yet
COMMANDS = {
    "case": ("flagperf --config-dir {folder} model={name} code_dir={folder}/code nproc=2",),
    "vendor": (
        "flagperf --config-dir {folder} check vendor={name}",
        "PATH={here}{folder}/bin:$PATH flagperf --config-dir {folder} vendor={name} hardware={name}1 "
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
    here = "" if folder.is_absolute() else '"$PWD"/'
    for command in COMMANDS[kind]:
        print("  " + command.format(folder=shlex.quote(str(folder)), name=name, here=here))
    return 0


def write(kind: str, name: str, folder: Path) -> None:
    """Copy the template of `kind` to `folder`, with `name` in the place of the placeholder, also in file names."""
    template = TEMPLATES / kind
    for source in sorted(path for path in template.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        target = folder / str(source.relative_to(template)).replace(PLACEHOLDER, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        named = IN_TEXT.sub(lambda found: name.upper() if found[1] else name, text)
        target.write_text(named, encoding="utf-8")
        shutil.copymode(source, target)


def _is_module(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.origin is not None  # a folder without __init__.py has no origin


def _check_name(kind: str, name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError("not a name", given=name, allowed="small letters, digits and _, a letter first")
    if kind == "case" and (keyword.iskeyword(name) or _is_module(name)):  # the name of the package with the case's code
        raise ConfigError("Python has a module or word of this name", given=name, advice="choose another name")
    if name in search_path.options(GROUPS[kind], search_path.search_path([])):
        raise ConfigError(f"flagperf has a {kind} of this name", given=name, advice="choose another name")
