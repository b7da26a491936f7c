"""Describes a case before it runs: settings, data, target, frameworks and tunings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.case_files import CaseFile, case_files
from flagperf.config.files.comments import comments
from flagperf.config.files.layers import Layers, Load, compose_layers
from flagperf.config.files.provenance import origin
from flagperf.config.files.search_path import find, options, search_path
from flagperf.config.files.sweep import make_jobs
from flagperf.config.rules.settable import PART_FIELDS, CaseRules
from flagperf.config.schema.keys import KEYS, PARTS, is_platform, is_under
from flagperf.contract.fields import Field
from flagperf.contract.leaves import ABSENT
from flagperf.errors import ConfigError

# Keys that are shown separately from the settings.
HEAD = ("case", "title", "field", "revision", "unit", "throughput_unit", "target", "mlperf", "data")


@dataclass(frozen=True)
class Setting:
    """One setting of a case."""

    key: str
    default: str | None  # as YAML writes it; None: the case does not set the key
    comment: str  # meaning, with the unit
    allowed: str  # type, range, options; empty for a key without a table
    reason: str | None  # why a closed run may change the key; None: it may not


@dataclass(frozen=True)
class AboutCase:
    """A case of one size, before any tuning."""

    name: str  # "bert", "paddle/bert"
    title: str
    field: str  # one of FIELDS; empty where the case does not say
    revision: int
    size: str
    sizes: tuple[str, ...]
    framework: str
    frameworks: tuple[str, ...]  # all frameworks of the case
    target: str
    mlperf: str  # benchmark and rules; empty where MLPerf has no such case
    data: str
    tree: str  # layout of data_dir
    sample: bool  # whether the case can write sample data
    tunings: Mapping[str, tuple[str, ...]]  # vendor → products and scales
    files: tuple[CaseFile, ...]
    settings: tuple[Setting, ...]


def about_case(case: str, chosen: Sequence[str] = (), config_dirs: Sequence[Path] = ()) -> AboutCase:
    """Compose a case at its full size, or with other choices.

    Args:
        chosen: choices, such as "framework=paddle" or "size=tiny".

    Raises:
        ConfigError: the case does not exist, or an override is no choice.
    """
    folders = search_path(config_dirs)
    (job,) = make_jobs(["size=full", *chosen, f"model={case}"], False, folders)
    for key, value in job.values.items():
        raise ConfigError("a list takes choices only", key=key, given=value, allowed="framework=…, size=…, vendor=…")
    layers = compose_layers(job, Load(folders), folders)
    final = layers.case
    model, mlperf, data = final.choices["model"], final.get("mlperf"), final.get("data") or {}
    return AboutCase(
        name=model,
        title=final.get("title"),
        field=final.get("field") or "",
        revision=final.get("revision") or 1,
        size=final.choices["size"],
        sizes=("full", *(size for size in options("size", folders) if find(f"size/{size}/{model}", folders))),
        framework=final.choices["framework"],
        frameworks=tuple(frameworks(final.get("case"), folders)),
        target=target_text(final.get("target")),
        mlperf="{benchmark}, rules {ruleset}".format(**mlperf) if mlperf.get("benchmark") else "",
        data=data.get("name", ""),
        tree=data.get("tree", "").rstrip(),
        sample="sample" in data,
        tunings={
            vendor: tuple(names)
            for vendor in options("vendor", folders)
            if (names := options(f"vendor/{vendor}/{model}", folders))
        },
        files=tuple(case_files(final.choices, final.get("case"), final.tree, folders)),
        settings=tuple(
            _settings(layers, CaseRules.of(layers, folders, origin(layers.files, folders, (), {})), folders)
        ),
    )


def frameworks(case: str, folders: Sequence[Path]) -> list[str]:
    """The frameworks of a case: first that of its own file, then those with a file for the case."""
    files = [path for name in (f"model/{case}", "config") if (path := find(name, folders))]
    texts = (path.read_text(encoding="utf-8") for path in files)
    chosen = (re.search(r"^ +- (?:override /)?framework: *(\S+)", text, re.MULTILINE) for text in texts)
    default = next(match[1] for match in chosen if match)
    return [default, *(name for name in options("framework", folders) if find(f"model/{name}/{case}", folders))]


def target_text(target: Mapping[str, Any] | None) -> str:
    """ "mlm_accuracy at least 0.71" """
    if not target:
        return "none"
    bound = "at least" if target["direction"] == "higher" else "at most"
    goals = {target["metric"]: target["value"], **target.get("also", {})}
    goals_text = ", ".join(f"{metric} {bound} {goal:g}" for metric, goal in goals.items())
    return f"{goals_text} {target.get('unit', '')}".rstrip()


def _settings(layers: Layers, rules: CaseRules, folders: Sequence[Path]) -> Iterator[Setting]:
    """All settings of the case, mutable ones first, in the order of the files."""
    case = layers.case
    values = {key: value for key, value in case.leaves.items() if not is_platform(key) and not is_under(key, HEAD)}
    values = {key: value for key, value in values.items() if key.split(".")[0] not in PARTS}
    reasons = {key: reason for key, reason in case.get("mutable").items() if key in rules.mutable}
    free = [key for key in reasons if not any(is_under(set_key, (key,)) for set_key in values)]  # not set by the case
    texts, fields = _comments(layers.files, folders), {**PART_FIELDS, **KEYS}
    rows = [
        Setting(
            key, _text(value), texts.get(key, ""), _allowed(fields.get(key), texts.get(key, "")), _reason(key, reasons)
        )
        for key, value in {**values, **dict.fromkeys(free, ABSENT)}.items()
    ]
    return iter(sorted(rows, key=lambda row: row.reason is None))


def _reason(key: str, reasons: Mapping[str, str]) -> str | None:
    return next((reason for mutable, reason in reasons.items() if is_under(key, (mutable,))), None)


def _comments(files: Sequence[str], folders: Sequence[Path]) -> dict[str, str]:
    """Key → comment, from the file with the highest precedence."""
    by_key: dict[str, str] = {}
    for name in reversed(files):
        if path := find(name, folders):
            by_key |= comments(path)
    return by_key


def _allowed(field: Field | None, comment: str) -> str:
    """The values that a field accepts; empty where the comment names all options."""
    if field is None or (field.options and all(option in comment for option in field.options)):
        return ""
    return str(field)


def _text(value: Any) -> str | None:
    if value is ABSENT:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
