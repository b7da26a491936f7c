"""JSON files of a result folder: each holds one record, with the number of its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flagperf.contract.perflog import decode, encode
from flagperf.contract.regular import read_text, write_atomically
from flagperf.errors import ConfigError

SCHEMA = 3  # it rises when a field changes its meaning, or is removed
READ = (1, 2, 3)  # what can be read; 1: `failure` is text; up to 2: no revision, seed, built; all rounds have one seed


def write_json(record: Mapping[str, Any], path: Path) -> Path:
    """Write a record with its schema number. A reader never sees half of the file."""
    text = json.dumps(encode({"schema": SCHEMA, **record}), indent=2, ensure_ascii=False, allow_nan=False)
    return write_atomically(path, text + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a record that `write_json` wrote. Raises ConfigError where the file is damaged or of another version."""
    try:
        record = decode(json.loads(read_text(path)))
        schema = record.pop("schema")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError, OSError) as error:
        raise ConfigError("not a result of flagperf", where=str(path), given=str(error)) from None
    if schema not in READ:
        allowed = " or ".join(map(str, READ))
        raise ConfigError("written by another version", where=str(path), key="schema", given=schema, allowed=allowed)
    return dict(record)
