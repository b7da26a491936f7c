"""What there is to know of a case before it runs: its settings, data, target, frameworks and tunings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

# Said apart from the settings.
HEAD = ("case", "title", "revision", "unit", "throughput_unit", "target", "mlperf", "data")


@dataclass(frozen=True)
class Setting:
    """One setting of a case."""

    key: str
    default: str | None  # as YAML writes it; None: the case sets none
    comment: str  # what it is, with its unit
    allowed: str  # type, range, options; empty where the launcher's tables do not know the key
    why: str | None  # a closed run may change it, because of this; None: it may not


@dataclass(frozen=True)
class AboutCase:
    """A case of one size, before any tuning."""

    name: str  # "bert", "paddle/bert"
    title: str
    revision: int
    size: str
    sizes: tuple[str, ...]
    framework: str
    frameworks: tuple[str, ...]  # all that the case is made for
    target: str
    mlperf: str  # its benchmark and rules; empty where none of its rules know the case
    data: str
    tree: str  # how data_dir must look
    sample: bool  # whether the case can write sample data
    tunings: Mapping[str, tuple[str, ...]]  # vendor → products and scales
    settings: tuple[Setting, ...]


def about_case(case: str, chosen: Sequence[str] = (), config_dirs: Sequence[Path] = ()) -> AboutCase:
    """Compose a case at its full size, or as chosen.

    Args:
        chosen: overrides that choose, such as "framework=paddle" or "size=tiny".

    Raises:
        ConfigError: there is no such case, or the overrides do more than choose.
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
        revision=final.get("revision") or 1,
        size=final.choices["size"],
        sizes=("full", *(size for size in options("size", folders) if find(f"size/{size}/{model}", folders))),
        framework=final.choices["framework"],
        frameworks=tuple(frameworks(final.get("case"), folders)),
        target=target_text(final.get("target")),
        mlperf="{benchmark}, rules {ruleset}".format(**mlperf) if "benchmark" in mlperf else "",
        data=data.get("name", ""),
        tree=data.get("tree", "").rstrip(),
        sample="sample" in data,
        tunings={vendor: found for vendor in options("vendor", folders) if (found := _tunings(vendor, model, folders))},
        settings=tuple(_settings(layers, CaseRules.of(layers, folders, origin(layers.files, folders, ())), folders)),
    )


def frameworks(case: str, folders: Sequence[Path]) -> list[str]:
    """The frameworks of a case: the one that its own file is for, and those that have a file of it."""
    files = [path for name in (f"model/{case}", "config") if (path := find(name, folders))]
    texts = (path.read_text(encoding="utf-8") for path in files)
    chosen = (re.search(r"^ +- (?:override /)?framework: *(\S+)", text, re.MULTILINE) for text in texts)
    own = next(found[1] for found in chosen if found)
    return [own, *(name for name in options("framework", folders) if find(f"model/{name}/{case}", folders))]


def target_text(target: Mapping[str, Any] | None) -> str:
    """ "mlm_accuracy at least 0.71" """
    if not target:
        return "none"
    bound = "at least" if target["direction"] == "higher" else "at most"
    goals = {target["metric"]: target["value"], **target.get("also", {})}
    said = ", ".join(f"{metric} {bound} {goal:g}" for metric, goal in goals.items())
    return f"{said} {target.get('unit', '')}".rstrip()


def _tunings(vendor: str, case: str, folders: Sequence[Path]) -> tuple[str, ...]:
    return tuple(options(f"vendor/{vendor}/{case}", folders))


def _settings(layers: Layers, rules: CaseRules, folders: Sequence[Path]) -> Iterator[Setting]:
    """All settings of the case, those that are mutable first, each group in the order of the files."""
    case = layers.case
    values = {key: value for key, value in case.leaves.items() if not is_platform(key) and not is_under(key, HEAD)}
    values = {key: value for key, value in values.items() if key.split(".")[0] not in PARTS}
    reasons = {key: why for key, why in case.get("mutable").items() if key in rules.mutable}
    free = [key for key in reasons if not any(is_under(known, (key,)) for known in values)]  # not set by the case
    said, fields = _comments(layers.files, folders), {**PART_FIELDS, **KEYS}
    rows = [
        Setting(key, _text(value), said.get(key, ""), _allowed(fields.get(key), said.get(key, "")), _why(key, reasons))
        for key, value in {**values, **dict.fromkeys(free, ABSENT)}.items()
    ]
    return iter(sorted(rows, key=lambda row: row.why is None))


def _why(key: str, reasons: Mapping[str, str]) -> str | None:
    return next((why for mutable, why in reasons.items() if is_under(key, (mutable,))), None)


def _comments(files: Sequence[str], folders: Sequence[Path]) -> dict[str, str]:
    """Key → comment, of the file that wins among those that have one."""
    found: dict[str, str] = {}
    for name in reversed(files):
        if path := find(name, folders):
            found |= comments(path)
    return found


def _allowed(field: Field | None, comment: str) -> str:
    """What the field accepts, unless the comment names all its options."""
    if field is None or (field.options and all(option in comment for option in field.options)):
        return ""
    return str(field)


def _text(value: Any) -> str | None:
    if value is ABSENT:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
