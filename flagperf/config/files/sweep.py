"""Overrides → jobs: the combinations of the values that the overrides list, in Hydra's grammar."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flagperf.config.files.search_path import find, options
from flagperf.config.files.suite import named_by, suite_of
from flagperf.config.files.suite import override as suite_override
from flagperf.config.files.user_files import sweep_of
from flagperf.config.schema.keys import GROUPS, RENAMED_OPTIONS, SCALE
from flagperf.contract.leaves import leaves
from flagperf.errors import ConfigError, meant

if TYPE_CHECKING:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Override

    # What a job is told together, what of it names the job, and the experiment that tells it; "": the command line.
    _Point = tuple[tuple[Override, ...], dict[str, str], str]


# A value that Hydra's grammar wants in quotes, such as /data/图片, but that can only be meant as it stands.
PLAIN = re.compile(r"([\w.+/]+)=([^'\",()\[\]{}$\\]+)")

OWN = "your own is a file of that name in {0}/ of a folder, given by --config-dir DIR"


@dataclass(frozen=True)
class JobOverrides:
    """What the overrides of one job say."""

    choices: Mapping[str, str]  # group → option
    experiments: tuple[str, ...]
    framework: str | None  # None: the one that the case is written for
    values: Mapping[str, Any]  # dotted key → value
    added: frozenset[str]  # keys written with a plus: they need not exist yet
    swept: Mapping[str, str]  # key → value as text
    suites: Mapping[str, str]  # key → the experiment whose suite says it, in place of the command line


def make_jobs(overrides: Sequence[str], multirun: bool, folders: Sequence[Path]) -> list[JobOverrides]:
    """The jobs that the overrides make; the last value listed changes fastest."""
    given = [_parse(text) for text in overrides]
    experiments = _experiments(given, folders)
    axes: list[list[_Point]] = []
    for override in (*given, *_of_experiments(given, experiments, multirun, folders)):
        if override.is_sweep_override():
            texts = _swept_texts(override, multirun, folders)
            swept = [_parse(f"{override.get_key_element()}={text}") for text in texts]
            axes.append([((one,), {one.key_or_group: _swept_text(one)}, "") for one in swept])
        else:
            axes.append([((override,), {}, "")])
    axes += _of_suites(given, experiments, multirun, folders)
    jobs = [_job(combination, folders) for combination in itertools.product(*axes)]
    if len({str(job.swept) for job in jobs}) < len(jobs):
        advice = "repeat=N repeats a job"
        raise ConfigError("two jobs of this sweep are the same", given=" ".join(overrides), advice=advice)
    return jobs


def _experiments(given: Sequence[Override], folders: Sequence[Path]) -> list[str]:
    """The experiments that overrides name, but for those that are swept."""
    named = [override for override in given if override.key_or_group == "experiment"]
    single = [override.value() for override in named if not override.is_sweep_override()]
    names = itertools.chain.from_iterable(value if isinstance(value, list) else [value] for value in single)
    return [_option("experiment", name, folders) for name in names]


def _of_experiments(
    given: Sequence[Override], experiments: Sequence[str], multirun: bool, folders: Sequence[Path]
) -> Iterator[Override]:
    """The sweeps that experiments hold, as Hydra's own `hydra.sweeper.params`, but for the keys that overrides set."""
    for name in experiments:
        sweep = sweep_of(name, folders)
        if sweep and not multirun:
            raise _needs_multirun(name, f"a sweep over {', '.join(sweep)}")
        for key, text in sweep.items():
            if key not in (override.key_or_group for override in given):
                yield _parse(f"{key}={text}")


def _of_suites(
    given: Sequence[Override], experiments: Sequence[str], multirun: bool, folders: Sequence[Path]
) -> Iterator[list[_Point]]:
    """The jobs that experiments list, a point each; an override of the command line takes the place of theirs."""
    replaced = {override.key_or_group for override in given}
    for name in experiments:
        rows = suite_of(name, folders)
        if rows and not multirun:
            raise _needs_multirun(name, f"a suite of {len(rows)} jobs")
        left = [{key: value for key, value in row.items() if key not in replaced} for row in rows]
        told = [tuple(_parse(suite_override(key, value)) for key, value in row.items()) for row in left]
        if rows:
            yield [(overrides, named, name) for overrides, named in zip(told, named_by(left), strict=True)]


def _needs_multirun(experiment: str, what: str) -> ConfigError:
    advice = f"flagperf -m +experiment={experiment} runs them all; a verb such as node takes the overrides of one job"
    return ConfigError(f"this experiment is {what}", key="experiment", given=experiment, advice=advice)


@cache
def _parser() -> OverridesParser:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


@cache
def _parse(text: str) -> Override:
    from hydra.errors import HydraException

    advice = "docs/configuration.md explains overrides; text with commas or brackets needs quotes: key=\"'a,b'\""
    try:
        override = _parser().parse_override(text)
    except HydraException:
        if plain := PLAIN.fullmatch(text):
            return _parse(f"{plain[1]}='{plain[2]}'")
        raise ConfigError("this is not an override of the form key=value", given=text, advice=advice) from None
    if override.is_delete():
        raise ConfigError("a key cannot be taken away", given=text, advice=f"{override.key_or_group}=null")
    if override.package is not None or not override.key_or_group:
        raise ConfigError("this is not an override of the form key=value", given=text, advice=advice)
    return override


def _swept_texts(override: Override, multirun: bool, folders: Sequence[Path]) -> list[str]:
    """The values of a sweep, as an override writes them."""
    key, given = override.key_or_group, override.input_line
    if not multirun:
        advice = f"-m of a run makes one job per value; a list is {key}=[a,b]; text with a comma is {key}=\"'a,b'\""
        raise ConfigError("several values need -m", key=key, given=given, advice=advice)
    if override.is_interval_sweep():
        raise ConfigError("an interval has no end of values", key=key, given=given, allowed="range(start, stop, step)")
    value: Any = override.value()
    texts = value.filter(options(key, folders)) if hasattr(value, "filter") else list(override.sweep_string_iterator())
    if not texts:
        raise ConfigError("this sweep has no value", key=key, given=given)
    return texts


def _swept_text(override: Override) -> str:
    value = override.value()
    return override.get_value_string() if value is None or isinstance(value, bool) else str(value)


def _job(combination: Sequence[_Point], folders: Sequence[Path]) -> JobOverrides:
    overrides = [override for said, _, _ in combination for override in said]
    suites = {override.key_or_group: name for said, _, name in combination for override in said if name}
    choices: dict[str, str] = {}
    experiments: tuple[str, ...] = ()
    framework = None
    values: dict[str, Any] = {}
    added: set[str] = set()
    swept = {key: text for _, named, _ in combination for key, text in named.items()}
    for override in overrides:
        key, value = override.key_or_group, override.value()
        if key == "experiment":
            experiments = tuple(_option(key, name, folders) for name in (value if isinstance(value, list) else [value]))
        elif key == SCALE:
            values.update(_scale(value))
        elif key == "framework":
            framework = _option(key, value, folders)
        elif key == "framework.version" and isinstance(value, float):  # 2.10 is not 2.1
            values[key] = (override.input_line or "").partition("=")[2].strip()
        elif key in GROUPS:
            choices[key] = _option(key, value, folders)
        else:
            given = leaves(value, f"{key}.") if isinstance(value, dict) else {key: value}
            values.update(given)
            if override.is_add() or override.is_force_add():
                added.update(given)
    keys = [override.key_or_group for override in overrides]
    if SCALE in keys and (twice := next((key for key in ("nnodes", "nproc") if key in keys), None)):
        raise ConfigError(
            "scale says how many nodes and devices", key=twice, advice="give scale=2x8, or nnodes and nproc"
        )
    return JobOverrides(choices, experiments, framework, values, frozenset(added), swept, suites)


def _scale(text: Any) -> dict[str, int]:
    """ "2x8" → nnodes 2, nproc 8."""
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", str(text))
    if not found:
        raise ConfigError("wrong form of value", key=SCALE, given=text, allowed="<nnodes>x<nproc>, such as 2x8")
    return {"nnodes": int(found[1]), "nproc": int(found[2])}


def _option(group: str, name: Any, folders: Sequence[Path]) -> str:
    """The option, or a ConfigError with what the group offers."""
    known = options(group, folders)
    on_framework = group == "model" and find(f"model/{name}", folders) is not None  # paddle/bert
    if str(name) not in known and not on_framework:
        renamed = RENAMED_OPTIONS.get((group, str(name)))
        advice = (
            f"FlagPerf's '{name}' is {group}={renamed} here" if renamed else meant(name, known) or OWN.format(group)
        )
        raise ConfigError(f"no such {group}", key=group, given=name, allowed=", ".join(known), advice=advice)
    return str(name)
