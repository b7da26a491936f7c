"""Checks the file of a framework, and finds the framework's interpreter on this machine."""

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

# Fields of a launch command (set by the plan) and of a rank's variables (set by flagperf.trainer.start).
LAUNCH = ("python", "nnodes", "nproc", "node_rank", "master_address", "master_port", "config", "scratch", "uncached")
RANK_FIELDS = tuple(field.name for field in fields(RankEnvironment))


def check_framework(framework: Framework, config: Mapping[str, Any], where: Where) -> None:
    """Refuse wrong templates and expressions, and requests that the framework does not support.

    Raises:
        ConfigError: a template has an unknown field, an expression lacks a group, or a request is not supported.
    """
    if config.get("probe") and not framework.probes:
        problem, advice = "only PyTorch measures devices", "framework=pytorch, or leave out probe="
        raise ConfigError(problem, where=where("probe"), key="probe", given=config["probe"], advice=advice)
    if config.get("prove") and not framework.extends:
        problem, advice = "only PyTorch can compare a vendor's own code", "framework=pytorch"
        raise ConfigError(problem, where=where("prove"), key="prove", given=True, advice=advice)
    for text in framework.launch:
        _check_template(text, LAUNCH, "framework.launch", where)
    for name, text in framework.environment.items():
        _check_template(text, RANK_FIELDS, f"framework.environment.{name}", where)
    for pattern in framework.failures.exits:
        groups = set(re.compile(pattern).groupindex)
        if "exit_status" not in groups or not groups & {"rank", "local_rank"}:
            key, problem = "framework.failures.exits", "a group of the expression is missing"
            allowed = "an expression with the groups exit_status, and rank or local_rank"
            raise ConfigError(problem, where=where(key), key=key, given=pattern, allowed=allowed)


def _check_template(text: str, known: Collection[str], key: str, where: Where) -> None:
    try:
        named = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        problem, advice = "this is no template", f"{error}; write a brace of the text twice"
        raise ConfigError(problem, where=where(key), key=key, given=text, advice=advice) from None
    for name in named:
        if name not in known:
            allowed = ", ".join(f"{{{field}}}" for field in sorted(known))
            raise ConfigError("no such field", where=where(key), key=key, given=f"{{{name}}}", allowed=allowed)


def local_python(framework: Framework) -> str:
    """The interpreter of the ranks on this machine: the framework's own environment if it exists, else this one."""
    path = (framework.python or "").format(prefix=sys.prefix)
    return path if path and Path(path).is_file() else sys.executable
