"""Writes the statement of a case about its network and recipe, which a verdict compares with BUILT of the ranks.

python -m cases.fingerprint CASE …                    writes conf/fingerprint/<case>.yaml; without CASE, of all cases
python -m cases.fingerprint --config-dir DIR CASE …   the same for your own cases, below DIR
.venv-paddle/bin/python -m cases.fingerprint paddle/bert      a case on another framework, in its environment
python -m flagperf.cases.fingerprint …                where pip installed flagperf, without a checkout

Run it again when a case's network, optimizer or schedule changes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from cases.statements import write_files
from flagperf.config.compose import compose

SIZES = ("full", "tiny")
HEADER = """\
# {python} -m cases.fingerprint {case}
#
# Network and recipe of {case}, in each size. A closed run that builds something else is INVALID.
# Written by this command from the case itself; docs/adding-a-case.md tells of it.
"""


def text(case: str, folders: Iterable[Path] = ()) -> str:
    """The content of a case's file."""
    configs = {size: config_of(case, size, folders) for size in SIZES}
    sizes = {size: stated(config) for size, config in configs.items()}
    return header(case, configs["full"]) + yaml.safe_dump(sizes, sort_keys=False, width=110)


def header(case: str, config: Mapping[str, Any]) -> str:
    """The comment at the beginning of a case's file."""
    python = (config["framework"]["python"] or "python").format(prefix=".venv")
    return HEADER.format(python=python, case=case)


def config_of(case: str, size: str, folders: Iterable[Path] = ()) -> Mapping[str, Any]:
    """The configuration of a case in a size. No data is needed."""
    return compose([f"model={case}", f"size={size}", "dry_run=true"], list(folders)).config


def stated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The statement of a case in the size of the configuration, made by the trainer of its framework."""
    trainer = importlib.import_module(f"flagperf.trainer.{config['framework']['name']}.identity")
    statement: dict[str, Any] = trainer.stated(config)
    return statement


if __name__ == "__main__":
    write_files(__doc__, "fingerprint", text)
