"""Overrides → jobs: the combinations of the values that the overrides list, in Hydra's grammar."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flagperf.config.files.search_path import find, options
from flagperf.config.files.suite import named_by, suite_of
from flagperf.config.files.suite import override as suite_override
from flagperf.config.files.user_files import sweep_of
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.keys import GROUPS, RENAMED_OPTIONS, SCALE
from flagperf.contract.leaves import leaves
from flagperf.errors import ConfigError, meant

if TYPE_CHECKING:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Override

    # Overrides that belong together, their naming part, and the experiment that has them; "": the command line.
    _Point = tuple[tuple[Override, ...], dict[str, str], str]


SHOWN = 60  # characters of an override that is too long
# A value that needs quotes in Hydra's grammar, such as /data/图片, but has only one meaning.
PLAIN = re.compile(r"([\w.+/]+)=([^'\",()\[\]{}$\\]+)")

OWN = "your own is a file of that name in {0}/ of a folder, given by --config-dir DIR"


def make_jobs(overrides: Sequence[str], multirun: bool, folders: Sequence[Path]) -> list[JobOverrides]:
    """The jobs of overrides; the value of the last sweep changes fastest."""
    parsed = [_parse(text) for text in overrides]
    experiments = _experiments(parsed, folders)
    axes: list[list[_Point]] = []
    of_experiments = _of_experiments(parsed, experiments, multirun, folders)
    for override, name in (*((override, "") for override in parsed), *of_experiments):
        if override.is_sweep_override():
            texts = _swept_texts(override, multirun, folders)
            swept = [_parse(f"{override.get_key_element()}={text}") for text in texts]
            axes.append([((point,), {point.key_or_group: _swept_text(point)}, name) for point in swept])
        else:
            axes.append([((override,), {}, name)])
    axes += _of_suites(parsed, experiments, multirun, folders)
    jobs = [_job(combination, folders) for combination in itertools.product(*axes)]
    if len({str(job.swept) for job in jobs}) < len(jobs):
        advice = "repeat=N repeats a job"
        raise ConfigError("two jobs of this sweep are the same", given=" ".join(overrides), advice=advice)
    return jobs


def _experiments(parsed: Sequence[Override], folders: Sequence[Path]) -> list[str]:
    """The experiments in overrides, without swept ones."""
    named = [override for override in parsed if override.key_or_group == "experiment"]
    single = [override.value() for override in named if not override.is_sweep_override()]
    names = itertools.chain.from_iterable(value if isinstance(value, list) else [value] for value in single)
    return [_option("experiment", name, folders) for name in names]


def _of_experiments(
    parsed: Sequence[Override], experiments: Sequence[str], multirun: bool, folders: Sequence[Path]
) -> Iterator[tuple[Override, str]]:
    """The sweeps of experiments (`hydra.sweeper.params`) and their names, without keys that overrides set."""
    for name in experiments:
        sweep = sweep_of(name, folders)
        if sweep and not multirun:
            raise _needs_multirun(name, f"a sweep over {', '.join(sweep)}")
        for key, text in sweep.items():
            if key not in (override.key_or_group for override in parsed):
                yield _parse(f"{key}={text}"), name


def _of_suites(
    parsed: Sequence[Override], experiments: Sequence[str], multirun: bool, folders: Sequence[Path]
) -> Iterator[list[_Point]]:
    """The suites of experiments, one point for each job. An override of the command line replaces their values."""
    replaced = {override.key_or_group for override in parsed}
    for name in experiments:
        rows = suite_of(name, folders)
        if rows and not multirun:
            raise _needs_multirun(name, f"a suite of {len(rows)} jobs")
        remaining = [{key: value for key, value in row.items() if key not in replaced} for row in rows]
        points = [tuple(_parse(suite_override(key, value)) for key, value in row.items()) for row in remaining]
        if rows:
            yield [(overrides, named, name) for overrides, named in zip(points, named_by(remaining), strict=True)]


def _needs_multirun(experiment: str, kind: str) -> ConfigError:
    advice = f"flagperf -m +experiment={experiment} runs them all; a verb such as node takes the overrides of one job"
    return ConfigError(f"this experiment is {kind}", key="experiment", given=experiment, advice=advice)


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
    except RecursionError:
        raise ConfigError("this override is nested too deeply", given=f"{text[:SHOWN]} …") from None
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
    """The values of a sweep, in the form of overrides."""
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
    overrides = [(override, name) for group_overrides, _, name in combination for override in group_overrides]
    choices: dict[str, str] = {}
    experiments: tuple[str, ...] = ()
    framework = None
    values: dict[str, Any] = {}
    experiment_of: dict[str, str] = {}
    added: set[str] = set()
    swept = {key: text for _, named, _ in combination for key, text in named.items()}
    for override, name in overrides:
        key, value, before = override.key_or_group, override.value(), values.keys() - {override.key_or_group}
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
            flat = leaves(value, f"{key}.") if isinstance(value, dict) else {key: value}
            values.update(flat)
            if override.is_add() or override.is_force_add():
                added.update(flat)
        experiment_of |= dict.fromkeys((values.keys() - before) if name else (), name)
    keys = [override.key_or_group for override, _ in overrides]
    if SCALE in keys and (twice := next((key for key in ("nnodes", "nproc") if key in keys), None)):
        raise ConfigError(
            "scale says how many nodes and devices", key=twice, advice="give scale=2x8, or nnodes and nproc"
        )
    return JobOverrides(choices, experiments, framework, values, frozenset(added), swept, experiment_of)


def _scale(text: Any) -> dict[str, int]:
    """ "2x8" → nnodes 2, nproc 8."""
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", str(text))
    if not match:
        raise ConfigError("wrong form of value", key=SCALE, given=text, allowed="<nnodes>x<nproc>, such as 2x8")
    return {"nnodes": int(match[1]), "nproc": int(match[2])}


def _option(group: str, name: Any, folders: Sequence[Path]) -> str:
    """The option. Raises ConfigError, with the options of the group, for an unknown one."""
    offered = options(group, folders)
    on_framework = group == "model" and find(f"model/{name}", folders) is not None  # paddle/bert
    if str(name) not in offered and not on_framework:
        renamed = RENAMED_OPTIONS.get((group, str(name)))
        advice = (
            f"FlagPerf's '{name}' is {group}={renamed} here" if renamed else meant(name, offered) or OWN.format(group)
        )
        raise ConfigError(f"no such {group}", key=group, given=name, allowed=", ".join(offered), advice=advice)
    return str(name)
