"""Writes what a case states of its network and recipe, with which a verdict compares what the ranks built.

python -m cases.fingerprint CASE …                    writes conf/fingerprint/<case>.yaml; without CASE, of all cases
python -m cases.fingerprint --config-dir DIR CASE …   likewise of your own cases, below DIR
.venv-paddle/bin/python -m cases.fingerprint paddle/bert      a case on another framework, in its environment

Run it again when a case's network, optimizer or schedule changes.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF, options

SIZES = ("full", "tiny")
HEADER = """\
# {python} -m cases.fingerprint {case}
#
# What the network and the recipe of {case} are, in each size. A closed run of something else is INVALID.
# Written by this command from the case itself; docs/adding-a-case.md tells of it.
"""


def main() -> None:
    """Write the files of the cases that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config-dir", type=Path)
    parser.add_argument("case", nargs="*")
    given = parser.parse_args()
    folders = [given.config_dir] if given.config_dir else []
    for case in given.case or options("model", [given.config_dir or CONF]):
        path = Path(given.config_dir or CONF, "fingerprint", f"{case}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(case, folders), encoding="utf-8")
        print(path)


def text(case: str, folders: Iterable[Path] = ()) -> str:
    """The content of a case's file."""
    configs = {size: config_of(case, size, folders) for size in SIZES}
    sizes = {size: stated(config) for size, config in configs.items()}
    return header(case, configs["full"]) + yaml.safe_dump(sizes, sort_keys=False, width=110)


def header(case: str, config: Mapping[str, Any]) -> str:
    """The comment that a case's file begins with."""
    python = (config["framework"]["python"] or "python").format(prefix=".venv")
    return HEADER.format(python=python, case=case)


def config_of(case: str, size: str, folders: Iterable[Path] = ()) -> Mapping[str, Any]:
    """The configuration of a case in a size. No data is needed."""
    return compose([f"model={case}", f"size={size}", "dry_run=true"], list(folders)).config


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a case states in the size of the configuration, as the trainer of its framework makes it."""
    trainer = importlib.import_module(f"flagperf.trainer.{config['framework']['name']}.identity")
    found: dict[str, Any] = trainer.stated(config)
    return found


if __name__ == "__main__":
    main()
