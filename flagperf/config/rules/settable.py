"""What a configuration may set: known keys, values of the right type and range, and the rules of the divisions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.files.layer import Layer
from flagperf.config.files.layers import Layers
from flagperf.config.files.search_path import CONF, find, is_shipped, options
from flagperf.config.files.sweep import JobOverrides
from flagperf.config.parts.names import check_ascii
from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.keys import (
    GROUPS,
    KEYS,
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
from flagperf.contract.hints import of_dataclass
from flagperf.contract.leaves import ABSENT, Leaves
from flagperf.contract.records import Change
from flagperf.contract.settings import check_end
from flagperf.errors import ConfigError, meant, near

OPEN = "division=open allows it, and the report says so"
TUNING_RULE = "a tuning may change mutable keys only"
CLOSED_RULE = "a closed run may not change this key"
# What the files of a vendor, a product and a runtime may say; a key that they leave out can still be set.
PART_FIELDS = {
    key: field
    for part, cls in (("vendor", Vendor), ("hardware", Hardware), ("runtime", RuntimeSettings))
    for key, field in of_dataclass(cls, f"{part}.").items()
    if key != f"{part}.name"  # that of the file
}
OPEN_FIELDS = tuple(key for key, field in PART_FIELDS.items() if field.type is dict)  # with names of the user's own
REQUIRED = ("case", "unit", "throughput_unit")  # and the parts that the framework makes of it


@dataclass(frozen=True)
class CaseRules:
    """What the case lets a closed run change."""

    mutable: tuple[str, ...]  # a key stands for all below it too
    file: Path  # of that list
    case_files: tuple[Path, ...]  # the case's own, and that of its size

    @classmethod
    def of(cls, layers: Layers, folders: Sequence[Path], where: Where) -> CaseRules:
        """The rules of a case, from its own files."""
        model, mutable = (layers.case.choices[group] for group in ("model", "mutable"))
        _check_name(model, layers.case.get("case"), folders)
        if (chosen := layers.final.choices["mutable"]) != mutable:
            problem = "the mutable list is the case's to choose"
            raise ConfigError(problem, where=where("defaults"), key="mutable", given=chosen, allowed=mutable)
        file = find(f"mutable/{mutable}", folders)
        assert file  # it was composed
        sizes = (layers.case.choices["size"], layers.final.choices["size"])  # the second may be the user's own
        names = dict.fromkeys([f"model/{model}", *(f"size/{size}/{model}" for size in sizes)])
        case_files = tuple(path for name in names if (path := find(name, folders)))
        keys = tuple(key for key, why in layers.case.get("mutable").items() if why is not None)
        return cls(keys, file, case_files)

    def check_keys(self, overrides: JobOverrides, layers: Layers, where: Where) -> None:
        """Refuse keys that nothing reads, and a tuning that changes more than mutable keys, in either division.

        Raises:
            ConfigError: the first of them; `also` has the others.
        """
        if found := list(self._wrong_keys(overrides, layers, where)):
            found[0].also = tuple(found[1:])
            raise found[0]

    def _wrong_keys(self, overrides: JobOverrides, layers: Layers, where: Where) -> Iterator[ConfigError]:
        known = _dotted([*layers.case.leaves, *PART_FIELDS])
        components = [key.removesuffix("._target_") for key in layers.case.leaves if key.endswith("._target_")]
        free = [*self.mutable, *OPEN_FIELDS, "cluster"]  # what may be added; schema/cluster.py has the fields of one
        unknown = [
            key
            for key in dict.fromkeys((*layers.by_tuning, *layers.by_experiment))
            if key not in known and not is_under(key, [*free, *components])
        ]
        yield from (_unknown(key, known, where(key)) for key in unknown)
        for key in overrides.values:
            if key not in overrides.added and key not in known and not is_under(key, free):
                yield _unknown(key, known, "command line")
        advice = "take it out of the tuning; an experiment with division=open may set it"
        for key in layers.by_tuning:
            if key not in unknown and not is_under(key, self.mutable):
                yield self._immutable(key, layers.final.leaves.get(key), TUNING_RULE, advice, where)

    def check_closed(self, changed: Iterable[Change], where: Where) -> None:
        """Refuse a change that a closed run must not make."""
        for change in changed:
            if not is_platform(change.key) and not is_under(change.key, self.mutable):
                raise self._immutable(change.key, change.after, CLOSED_RULE, OPEN, where)

    def _immutable(self, key: str, given: object, problem: str, advice: str, where: Where) -> ConfigError:
        allowed = f"the keys listed in {self.file}"
        return ConfigError(problem, where=where(key), key=key, given=given, allowed=allowed, advice=advice)

    def check_values(self, case: Layer, final: Layer, changed: Collection[str], where: Where) -> None:
        """Refuse values of a wrong type or out of range, wherever they were set, and a case that is not complete."""
        for key, value in final.leaves.items():
            if value == "???":
                self._refuse_case("the case must set this key", key)
            if isinstance(value, str) and "\0" in value:
                raise ConfigError("no text may hold the character NUL", where=where(key), key=key, given=repr(value))
        parents = _dotted(case.leaves) - case.leaves.keys()
        for key in parents.intersection(changed):  # before ${…} is resolved, which may refer to what lies below
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
    """Refuse a case of the user's own that would be reported as a shipped one."""
    path = find(f"model/{model}", folders)
    check_ascii("case", str(case), str(path))
    if path and not is_shipped(path) and str(case).casefold() in options("model", (CONF,)):
        problem = "a case of your own cannot have the name of a shipped one"
        raise ConfigError(problem, where=str(path), key="case", given=case, advice=f"case: {model.rpartition('/')[2]}")


def _unknown(key: str, known: Collection[str], where: str) -> ConfigError:
    """What to say of a key that nothing reads. `known`: all dotted keys, parents included."""
    of_cluster = of_dataclass(Cluster, "cluster.")
    names = near(key, {*known, *of_cluster, *RENAMED, *GROUPS, "framework", SCALE})
    renamed = next((name for name in names[:1] if name in RENAMED and name not in known), None)
    advice = f"FlagPerf's '{renamed}' is {RENAMED[renamed]} here" if renamed else meant(key, names)
    advice = OTHER_WORDS.get(key) or advice or "flagperf list CASE shows the settings of a case, dry_run=true all keys"
    return ConfigError("unknown key", where=where, key=key, advice=advice)


def unread(case: Leaves) -> list[str]:
    """Top-level keys of a case that nothing reads: not in the table, no component, and no ${…} refers to them."""
    names = {key.split(".")[0] for key in case}
    components = {key.split(".")[0] for key in case if key.endswith("_target_")}
    known = {key.split(".")[0] for key in KEYS}
    referred = set(re.findall(r"\$\{(\w+)", " ".join([*case, *(str(value) for value in case.values())])))
    return sorted(names - components - known - referred - set(PARTS))


def _at(tree: Any, key: str) -> Any:
    """The value of a dotted key; ABSENT where there is none."""
    for part in key.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return ABSENT
        tree = tree[part]
    return tree


def _dotted(keys: Iterable[str]) -> set[str]:
    """All dotted keys, parents included."""
    return {".".join(parts[:end]) for key in keys for parts in [key.split(".")] for end in range(1, len(parts) + 1)}
