"""Checks the keys of a configuration: known keys, types and ranges of values, and the rules of the divisions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.files.layer import Layer
from flagperf.config.files.layers import Layers
from flagperf.config.files.search_path import CONF, find, is_shipped, options
from flagperf.config.parts.names import check_ascii
from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.keys import (
    GROUPS,
    KEYS,
    OPEN,
    OTHER_WORDS,
    PARTS,
    RENAMED,
    SCALE,
    check_value,
    is_platform,
    is_under,
)
from flagperf.config.schema.platform import Hardware, RuntimeSettings, Vendor
from flagperf.contract.build import Where
from flagperf.contract.hints import fields_of
from flagperf.contract.leaves import ABSENT, Leaves
from flagperf.contract.records import Change
from flagperf.contract.settings import check_end
from flagperf.errors import ConfigError, meant, near

TUNING_RULE = "a tuning may change mutable keys only"
CLOSED_RULE = "a closed run may not change this key"
# The keys of the files of a vendor, a product and a runtime. A key that a file leaves out can still be set.
PART_FIELDS = {
    key: field
    for part, cls in (("vendor", Vendor), ("hardware", Hardware), ("runtime", RuntimeSettings))
    for key, field in fields_of(cls, f"{part}.").items()
    if key != f"{part}.name"  # the name of the file
}
OPEN_FIELDS = tuple(key for key, field in PART_FIELDS.items() if field.type is dict)  # with free names below
REQUIRED = ("case", "unit", "throughput_unit")  # beside the required parts of the framework


@dataclass(frozen=True)
class CaseRules:
    """The keys of a case that a closed run may change."""

    mutable: tuple[str, ...]  # each with all keys below
    file: Path  # of the list
    case_files: tuple[Path, ...]  # of the case and of its size

    @classmethod
    def of(cls, layers: Layers, folders: Sequence[Path], where: Where) -> CaseRules:
        """The rules of a case, from its own files."""
        model, mutable = (layers.case.choices[group] for group in ("model", "mutable"))
        _check_name(model, layers.case.get("case"), folders)
        if (chosen := layers.final.choices["mutable"]) != mutable:
            problem = "only the case may choose its mutable list"
            raise ConfigError(problem, where=where("defaults"), key="mutable", given=chosen, allowed=mutable)
        file = find(f"mutable/{mutable}", folders)
        assert file  # the composition has read the file
        sizes = (layers.case.choices["size"], layers.final.choices["size"])  # the second may be the user's own
        names = dict.fromkeys([f"model/{model}", *(f"size/{size}/{model}" for size in sizes)])
        case_files = tuple(path for name in names if (path := find(name, folders)))
        keys = tuple(key for key, reason in layers.case.get("mutable").items() if reason is not None)
        return cls(keys, file, case_files)

    def check_keys(self, overrides: JobOverrides, layers: Layers, where: Where) -> None:
        """Refuse unknown keys, and a tuning with keys that are not mutable, in either division.

        Raises:
            ConfigError: the first error; `also` has the others.
        """
        if errors := list(self._wrong_keys(overrides, layers, where)):
            errors[0].also = tuple(errors[1:])
            raise errors[0]

    def _wrong_keys(self, overrides: JobOverrides, layers: Layers, where: Where) -> Iterator[ConfigError]:
        known = _dotted([*layers.case.leaves, *PART_FIELDS])
        components = [key.removesuffix("._target_") for key in layers.case.leaves if key.endswith("._target_")]
        free = [*self.mutable, *OPEN_FIELDS, "cluster"]  # keys with free names below
        unknown = [
            key
            for key in dict.fromkeys((*layers.by_tuning, *layers.by_experiment))
            if key not in known and not is_under(key, [*free, *components])
        ]
        yield from (_unknown(key, known, where(key)) for key in unknown)
        for key in overrides.values:
            if key not in overrides.added and key not in known and not is_under(key, free):
                yield _unknown(key, known, where(key))
        advice = "take it out of the tuning; an experiment with division=open may set it"
        for key in layers.by_tuning:
            if key not in unknown and not is_under(key, self.mutable):
                yield self._immutable(key, layers.final.leaves.get(key), TUNING_RULE, advice, where)

    def check_closed(self, changed: Iterable[Change], where: Where) -> None:
        """Refuse a change that a closed run may not make."""
        for change in changed:
            if not is_platform(change.key) and not is_under(change.key, self.mutable):
                raise self._immutable(change.key, change.after, CLOSED_RULE, OPEN, where)

    def _immutable(self, key: str, given: object, problem: str, advice: str, where: Where) -> ConfigError:
        allowed = f"the keys listed in {self.file}"
        return ConfigError(problem, where=where(key), key=key, given=given, allowed=allowed, advice=advice)

    def check_values(self, case: Layer, final: Layer, changed: Collection[str], where: Where) -> None:
        """Refuse values of a wrong type or range from any source, and an incomplete case."""
        for key, value in final.leaves.items():
            if value == "???":
                self._refuse_case("the case must set this key", key)
            if isinstance(value, str) and "\0" in value:
                raise ConfigError("no text may hold the character NUL", where=where(key), key=key, given=repr(value))
        parents = _dotted(case.leaves) - case.leaves.keys()
        for key in parents.intersection(changed):  # before ${…} is resolved, because it may refer to keys below
            if not str(value := final.leaves[key]).startswith("${"):
                check_value(key, value, {}, where)
        tree = final.resolved(where)
        for key in [*KEYS, *changed]:
            if (value := _at(tree, key)) is not ABSENT:
                check_value(key, value, case.get(key), where)
        parts = tree["framework"].get("parts")
        needed = [part for part, is_needed in parts.items() if is_needed] if isinstance(parts, dict) else []
        for key in (*REQUIRED, *needed):
            if tree.get(key) is None:
                self._refuse_case("the case must set this key", key)
        check_end(tree, str(self.case_files[0]))
        read = {key.split(".")[0] for key in case.leaves}.difference(unread(case.leaves))
        for key in unread(final.leaves):
            # a data set's file is shared, and a case may leave a key unused
            if key not in read and Path(where(key)) in self.case_files:
                raise ConfigError("nothing reads this key", where=where(key), key=key, advice=meant(key, KEYS))

    def _refuse_case(self, problem: str, key: str) -> None:
        allowed = str(KEYS[key]) if key in KEYS else None
        raise ConfigError(problem, where=str(self.case_files[0]), key=key, allowed=allowed)


def _check_name(model: str, case: Any, folders: Sequence[Path]) -> None:
    """Refuse a user's case with the name of a shipped case."""
    path = find(f"model/{model}", folders)
    check_ascii("case", str(case), str(path))
    if path and not is_shipped(path) and str(case).casefold() in options("model", (CONF,)):
        problem = "a case of your own cannot have the name of a shipped one"
        raise ConfigError(problem, where=str(path), key="case", given=case, advice=f"case: {model.rpartition('/')[2]}")


def _unknown(key: str, known: Collection[str], where: str) -> ConfigError:
    """The error for an unknown key. `known`: all dotted keys with their parents."""
    of_cluster = fields_of(Cluster, "cluster.")
    names = near(key, {*known, *of_cluster, *RENAMED, *GROUPS, "framework", SCALE})
    renamed = next((name for name in names[:1] if name in RENAMED and name not in known), None)
    advice = f"FlagPerf's '{renamed}' is {RENAMED[renamed]} here" if renamed else meant(key, names)
    advice = OTHER_WORDS.get(key) or advice or "flagperf list CASE shows the settings of a case, dry_run=true all keys"
    return ConfigError("unknown key", where=where, key=key, advice=advice)


def unread(case: Leaves) -> list[str]:
    """Unused top-level keys of a case: not in the table, no component, and without a reference ${…}."""
    names = {key.split(".")[0] for key in case}
    components = {key.split(".")[0] for key in case if key.endswith("_target_")}
    known = {key.split(".")[0] for key in KEYS}
    referred = set(re.findall(r"\$\{(\w+)", " ".join([*case, *(str(value) for value in case.values())])))
    return sorted(names - components - known - referred - set(PARTS))


def _at(tree: Any, key: str) -> Any:
    """The value of a dotted key; ABSENT for a missing key."""
    for part in key.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return ABSENT
        tree = tree[part]
    return tree


def _dotted(keys: Iterable[str]) -> set[str]:
    """All dotted keys with their parents."""
    return {".".join(parts[:end]) for key in keys for parts in [key.split(".")] for end in range(1, len(parts) + 1)}
