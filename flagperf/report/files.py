"""The folder of a run → the Summary of each of its jobs."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from flagperf.config.schema.keys import KEYS, MOST_RANKS
from flagperf.contract.build import build
from flagperf.contract.fields import Positive, folder_name
from flagperf.contract.records import Change, Result, Summary
from flagperf.contract.regular import read_yaml
from flagperf.errors import ConfigError
from flagperf.results import batch_sizes, parts
from flagperf.results import result as results
from flagperf.results.reread import read_again, with_reason
from flagperf.results.summary import FILE, summary_of
from flagperf.run import command_file
from flagperf.run.folder import is_held

log = logging.getLogger(__name__)

NEEDED = {  # keys of a configuration that a report needs; names are parts of paths
    **{name: KEYS[name] for name in ("nnodes", "nproc", "repeat", "case", "division", "precision", "throughput_unit")},
    **dict.fromkeys(("size", "framework.name", "hardware.name", "vendor.name"), folder_name()),
}

_ROUND = re.compile(r"round(\d+)")


@dataclass(frozen=True)
class _Newer:
    """Keys of a configuration that a report needs, too, and that runs of older versions lack."""

    max_cv: Positive | None = None
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Changes:
    """The content of a changes.yaml."""

    changes: tuple[Change, ...]


def read_run(run_dir: Path) -> tuple[Summary, ...]:
    """Every job of a run, from its files alone. The reasons of a job that broke off name the missing files.

    Raises:
        ConfigError: the folder holds no run, or no job of the run can be read.
    """
    if is_job(run_dir):
        run = next(folder for folder in run_dir.resolve().parents if not is_job(folder))
        raise ConfigError("this folder is a part of a run", given=run_dir, advice=f"give the folder of the run: {run}")
    folders = [path.parent for path in run_dir.glob("*/config.yaml")]
    goes_on, ordered_rounds = is_held(run_dir), _ordered_rounds(run_dir)
    if not folders:
        raise ConfigError(
            "no run in this folder", given=run_dir, advice="give a folder such as result/run20260101-120000"
        )
    jobs: list[Summary] = []
    errors: list[ConfigError] = []
    for job in folders:
        try:
            jobs.append(_read_job(job, goes_on and not (job / FILE).exists(), ordered_rounds))
        except ConfigError as error:
            errors.append(error)
    if not jobs:
        raise errors[0]
    for problem in errors:
        log.warning("a job is left out of the report: %s", problem)
    return tuple(sorted(jobs, key=_order))


def is_job(folder: Path) -> bool:
    """Whether the folder is that of a job or of its round, and not of a run."""
    return (folder / "config.yaml").exists()


def read_jobs(folder: Path) -> tuple[Summary, ...]:
    """The jobs of a run, or the job whose folder is given. Raises what `read_run` raises."""
    if not is_job(folder):
        return read_run(folder)
    return tuple(job for job in read_run(folder.resolve().parent) if job.name == folder.resolve().name)


def command_of(run_dir: Path) -> tuple[str, str] | None:
    """The command of a run, and when and where the user gave it; None where that is not known."""
    if (command := _read_command(run_dir)) is None:
        return None
    return command.line(), f"{datetime.fromtimestamp(command.began):%Y-%m-%d %H:%M:%S} in {command.folder}"


def _ordered_rounds(run_dir: Path) -> int | None:
    """The number of rounds that the command asked for; None: not known, or each job may have its own number."""
    if (command := _read_command(run_dir)) is None or command.multirun:
        return None
    given = [text.partition("=")[2] for text in command.overrides if command_file.key_of(text) == "repeat"]
    return int(given[-1]) if given and given[-1].isdecimal() else None


def _read_command(run_dir: Path) -> command_file.Command | None:
    try:
        return command_file.read(run_dir)
    except ConfigError:
        return None


def _read_job(folder: Path, goes_on: bool, ordered_rounds: int | None) -> Summary:
    try:
        config = read_yaml(folder / "config.yaml")
        _check_config(config, str(folder / "config.yaml"))
        changes = _read_changes(folder / "changes.yaml")
        numbers = [int(match[1]) for path in folder.iterdir() if (match := _ROUND.fullmatch(path.name))]
        KEYS["repeat"].check("repeat", last := max([config["repeat"], *numbers]), lambda _: str(folder))
        rounds = range(1, last + 1)
        round_results = [_read_round(folder, number, config, changes, goes_on) for number in rounds]
        if ordered_rounds not in (None, config["repeat"]):
            why = f"the command asked for {ordered_rounds} rounds, config.yaml says {config['repeat']}"
            round_results = [with_reason(result, "INVALID", why) for result in round_results]
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
        problem = "config.yaml or changes.yaml of this job cannot be read"
        raise ConfigError(problem, where=str(folder), given=str(error) or type(error).__name__) from None
    return summary_of(folder.name, round_results, config, changes, batch_sizes.read(folder))


def _check_config(config: Any, file: str) -> None:
    """Raise an error where a key of `NEEDED` is missing or wrong, or one of `_Newer` is wrong."""
    if not isinstance(config, dict):
        raise TypeError("not a mapping of keys to values")
    for key, needed in NEEDED.items():
        value: Any = config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        needed.check(key, value, lambda _: file)
    newer = {entry.name for entry in dataclasses.fields(_Newer)} & config.keys()
    build(_Newer, {key: config[key] for key in newer}, "", lambda _: file)
    if (ranks := config["nnodes"] * config["nproc"]) > MOST_RANKS:
        given = f"{ranks} ranks"
        raise ConfigError("value out of range", where=file, key="nnodes", given=given, allowed=f"at most {MOST_RANKS}")


def _read_round(job: Path, number: int, config: Mapping[str, Any], changes: Iterable[Change], goes_on: bool) -> Result:
    folder = job / f"round{number}"
    if (folder / results.FILE).exists():
        try:
            recorded = _of_revision(config.get("revision", 1), results.read(folder, config), folder)
            return read_again(recorded, config, changes, folder)
        except ConfigError as error:
            if error.key in ("schema", "revision"):
                raise
            log.warning("%s; its logs are read instead", error)
    if (together := parts.together(folder, config["nnodes"])) is not None:
        ending = results.Ending.of(together)
    else:
        ending = results.Ending(_status(folder.is_dir(), goes_on))
    return results.result_of_logs(config, changes, number, folder, ending, _swept(job.name))


def _of_revision(revision: int, result: Result, folder: Path) -> Result:
    """The result, which must be of the revision that the job's configuration states."""
    if result.identity.revision != revision:
        raise ConfigError(
            "this round is of another revision of the case than its job",
            where=str(folder / results.FILE),
            key="revision",
            given=result.identity.revision,
            allowed=str(revision),
            advice="take the round out of the job's folder: rounds of different revisions make no statistics",
        )
    return result


def _status(began: bool, goes_on: bool) -> str:
    """The status of a round without a result. `goes_on`: the launcher is running, and has not summed the job up."""
    if began:
        return "running" if goes_on else "unfinished"
    return "waiting" if goes_on else "not started"


def _read_changes(path: Path) -> tuple[Change, ...]:
    if not path.exists():
        return ()
    return build(_Changes, {"changes": read_yaml(path) or ()}, "", lambda _: str(path)).changes


def _swept(job: str) -> dict[str, str]:
    """The swept keys at the end of the name of a job's folder: ",key=value,key=value"."""
    parts = (part.partition("=") for part in re.split(r",(?=[^,=]+=)", job)[1:])
    return {key: unquote(value) for key, _, value in parts}


def _order(job: Summary) -> tuple[float, list[tuple[int, str]]]:
    """A sort key: jobs by their start, then the jobs that did not start by name, where 8 comes before 16."""
    started = min((result.started for result in job.results if result.started is not None), default=math.inf)
    return started, [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", job.name)]
