"""Checks the alignment that a run names or needs: of the same case and product, all inside.

A run that requires an alignment needs one with the curves of the case; others may name one with curves of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.files.search_path import family_of, find
from flagperf.contract.alignment import RECORD, AlignmentRecord, command, files_of, recomputed
from flagperf.contract.build import Where, build
from flagperf.contract.digest import sha256_of
from flagperf.contract.identity import Identity
from flagperf.contract.regular import parse_json, read_text
from flagperf.errors import ConfigError
from flagperf.user import user_path

KEY = "alignment"


def alignment_record(config: Mapping[str, Any], folders: Sequence[Path], where: Where) -> dict[str, Any] | None:
    """The record of the alignment that a configuration names, as plain data; None: the configuration names none.

    Args:
        folders: the search path.

    Raises:
        ConfigError: the run requires an alignment and names none, or the named alignment does not cover this run.
    """
    identity = Identity.of(config)
    family = family_of(identity.case, folders)  # the case with the curves
    advice = f"{command(family, identity.vendor, identity.hardware)}, then {KEY}=RUN_FOLDER"
    if config[KEY] is None:
        if config["require_alignment"]:
            problem = "the run requires an alignment, and names none"
            raise ConfigError(problem, where=where("require_alignment"), key=KEY, given="null", advice=advice)
        return None
    path = user_path(config[KEY], key=KEY, where=where(KEY))
    path = path / RECORD if path.is_dir() else path
    record = read(path, where, advice)
    curves = find(f"golden/{record.case}", folders)
    expected = {
        "case": family,
        **({"revision": identity.revision} if identity.case == family else {}),
        **{name: getattr(identity, name) for name in ("framework", "vendor", "hardware")},
        "inside": True,
        **({"golden": sha256_of(curves) if curves else None} if config["require_alignment"] else {}),
    }
    for name, value in expected.items():
        if (recorded := getattr(record, name)) != value:
            problem = f"the alignment does not cover this run: another {name}"
            if name == "inside":
                problem = f"the device left the band in this alignment: {'; '.join(record.curves.values())}"
            allowed = f"{name}: {value}"
            given = f"{path}, {name}: {recorded}"
            raise ConfigError(problem, where=where(KEY), key=KEY, given=given, allowed=allowed, advice=advice)
    _check_logs(path, record, where, advice)
    return dataclasses.asdict(record)


def _check_logs(path: Path, record: AlignmentRecord, where: Where, advice: str) -> None:
    """Refuse a record that does not follow from the curves and the logs beside it."""
    try:
        followed = recomputed(path.parent)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
        reason = error.problem if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        problem = f"the record of the alignment cannot be recomputed from its logs: {reason}"
        names = ", ".join(file.name for file in files_of(path.parent, list(record.curves)))
        raise ConfigError(
            problem, where=where(KEY), key=KEY, given=path.parent, allowed=f"a folder with {names}", advice=advice
        ) from None
    for field in dataclasses.fields(record):
        stated, value = getattr(record, field.name), getattr(followed, field.name)
        if stated != value:
            problem = f"the record of the alignment does not follow from its logs: {field.name} differs"
            given = f"{path}, {field.name}: {stated}"
            allowed = f"{field.name}: {value}"
            raise ConfigError(problem, where=where(KEY), key=KEY, given=given, allowed=allowed, advice=advice)


def read(path: Path, where: Where, advice: str) -> AlignmentRecord:
    """The record in a file. Raises ConfigError where the file holds none."""
    try:
        content = parse_json(read_text(path))
        return build(AlignmentRecord, content, "", lambda _: str(path))
    except (OSError, ValueError, ConfigError) as error:
        reason = error.problem if isinstance(error, ConfigError) else str(error)
        problem = f"this is no record of an alignment: {reason}"
        raise ConfigError(problem, where=where(KEY), key=KEY, given=path, advice=advice) from None
