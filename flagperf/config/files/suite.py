"""Reads the `suite` of an experiment: a list of jobs with their own overrides. A sweep has all combinations instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import find
from flagperf.config.files.user_files import check_user_files
from flagperf.config.schema.keys import IN_NAME, SUITE
from flagperf.errors import ConfigError

Row = Mapping[str, Any]  # key → value of one job

QUOTE = re.compile(r"(\\*)('|\Z)")  # positions where Hydra's grammar needs double backslashes or an escaped quote
IN_KEY = re.compile(r"[\\()\[\]{}:=, \t]")  # characters that a key of a mapping has after a backslash
PLAIN = re.compile(
    r"(?!(?:true|false|null|nan|inf)$)[a-z/][\w./+-]*", re.ASCII | re.IGNORECASE
)  # a text without quotes
REFERENCE = re.compile(r"(\\*)\$\{")


def suite_of(experiment: str, folders: Sequence[Path]) -> list[Row]:
    """The jobs of an experiment, in order; empty without a suite.

    Raises:
        ConfigError: the suite is no list, or a job is no mapping.
    """
    check_user_files([f"experiment/{experiment}"], folders)
    path = find(f"experiment/{experiment}", folders)
    rows = (read_yaml(path) or {}).get(SUITE) if path else None
    if rows is None:
        return []
    form = "a list of mappings, such as - {model: bert, scale: 1x8, repeat: 3, data_dir: /data/bert}"
    if not isinstance(rows, list) or not rows:
        raise ConfigError("a suite is a list of jobs", where=str(path), key=SUITE, given=rows, allowed=form)
    for number, row in enumerate(rows, 1):
        key = f"{SUITE}[{number}]"
        if not isinstance(row, dict) or not row or not all(isinstance(name, str) for name in row):
            raise ConfigError("a job of a suite is a mapping", where=str(path), key=key, given=row, allowed=form)
        if "experiment" in row:
            advice = f"put its values here, or give both: -m +experiment=[{experiment},{row['experiment']}]"
            raise ConfigError("a job of a suite names no experiment", where=str(path), key=key, advice=advice)
    return rows


def named_by(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The naming keys of each job: case, product and scale, and all keys that tell jobs with equal ones apart."""
    names = []
    for row in rows:
        equal_rows = [other for other in rows if all(other.get(key) == row.get(key) for key in IN_NAME)]
        keys = (key for key in row if key in IN_NAME or any(other.get(key) != row[key] for other in equal_rows))
        names.append({key: _plain(row[key]) for key in keys})
    return names


def override(key: str, value: Any) -> str:
    """`key=value` in the form of the command line."""
    return f"{key}={text(value)}"


def literal(value: str) -> str:
    """A text that is resolved to this value: a `${` in it is no reference."""
    return REFERENCE.sub(lambda match: match[1] * 2 + "\\${", value)


def text(value: Any) -> str:
    """A value in Hydra's grammar, which gives the same value back."""
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) else _quoted(value)
    if isinstance(value, dict):
        return "{" + _joined(f"{_key(name)}: {text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + _joined(map(text, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else text(value)


def _quoted(value: str) -> str:
    return "'" + QUOTE.sub(lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value) + "'"


def _key(name: Any) -> str:
    return IN_KEY.sub(r"\\\g<0>", str(name))


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)
