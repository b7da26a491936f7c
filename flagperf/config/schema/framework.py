"""The framework of a run: what its file says, checked, and the interpreter that has it on this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from string import Formatter
from typing import Any

from flagperf.config.schema.platform import Framework
from flagperf.contract.build import Where
from flagperf.contract.rank_environment import RankEnvironment
from flagperf.errors import ConfigError

# What the plan puts into a launch command, and flagperf.trainer.start into a rank's variables.
LAUNCH = ("python", "nnodes", "nproc", "node_rank", "master_address", "master_port", "config", "scratch", "uncached")
PLACE = tuple(field.name for field in fields(RankEnvironment))


def check_framework(made: Framework, config: Mapping[str, Any], where: Where) -> None:
    """Refuse templates and expressions that cannot be used, and what the framework cannot do.

    Raises:
        ConfigError: a template has a field that nobody fills in, or an expression lacks a group.
    """
    if config.get("probe") and not made.probes:
        problem, advice = "the devices are measured through PyTorch alone", "framework=pytorch, or leave out probe="
        raise ConfigError(problem, where=where("probe"), key="probe", given=config["probe"], advice=advice)
    if config.get("prove") and not made.extends:
        problem, advice = "a vendor's own code is compared with PyTorch alone", "framework=pytorch"
        raise ConfigError(problem, where=where("prove"), key="prove", given=True, advice=advice)
    for text in made.launch:
        _check_template(text, LAUNCH, "framework.launch", where)
    for name, text in made.environment.items():
        _check_template(text, PLACE, f"framework.environment.{name}", where)
    for pattern in made.failures.exits:
        groups = set(re.compile(pattern).groupindex)
        if "exit_status" not in groups or not groups & {"rank", "local_rank"}:
            key, problem = "framework.failures.exits", "a group of the expression is missing"
            allowed = "an expression with the groups exit_status, and rank or local_rank"
            raise ConfigError(problem, where=where(key), key=key, given=pattern, allowed=allowed)


def _check_template(text: str, known: Collection[str], key: str, where: Where) -> None:
    try:
        named = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        problem, advice = "this is no template", f"{error}; a brace that is meant as text is written twice"
        raise ConfigError(problem, where=where(key), key=key, given=text, advice=advice) from None
    for name in named:
        if name not in known:
            allowed = ", ".join(f"{{{one}}}" for one in sorted(known))
            raise ConfigError("no such field", where=where(key), key=key, given=f"{{{name}}}", allowed=allowed)


def local_python(made: Framework) -> str:
    """The interpreter of the ranks on this machine: of the framework's own environment where there is one."""
    path = (made.python or "").format(prefix=sys.prefix)
    return path if path and Path(path).is_file() else sys.executable
