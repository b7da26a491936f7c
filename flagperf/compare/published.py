"""What FlagPerf publishes of a case (conf/published/), as a job that others are held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from flagperf.compare.jobs import NamedJob, Pairs
from flagperf.config.files.search_path import CONF, find
from flagperf.contract.identity import Identity
from flagperf.contract.records import Summary
from flagperf.contract.regular import read_yaml
from flagperf.errors import ConfigError
from flagperf.results.summary import summary_of, usable

NAME = "published"  # the word that stands for it in place of a run
SCALES = "1x1, 1x8 and 2x8"  # at which FlagPerf measures
VENDOR = "nvidia"  # whose chips FlagPerf's own figures are of
SETTINGS = ("train_batch_size", "lr")  # of a row; where it has none, those of the case

Row = Mapping[str, Any]


def pair_published(jobs: Iterable[NamedJob]) -> Pairs:
    """Each job with the published one of its case and scale that is nearest to it, in precision and then in batch.

    Raises:
        ConfigError: nothing is published that any of them could be held against.
    """
    pairs, alone = [], []
    for job in jobs:
        known = _read(job.summary)
        rows = [row for row in known.get("results", ()) if _scale(row) == _scale_of(job.summary)]
        if rows and usable(job.summary.results):
            pairs.append((_job(known, max(rows, key=lambda row: _nearness(row, job.summary)), job), job))
        else:
            alone.append(job.name)
    if not pairs:
        cases = ", ".join(sorted(file.stem for file in (CONF / NAME).glob("*.yaml")))
        raise ConfigError(
            "FlagPerf publishes nothing that compares with this",
            given=", ".join(alone),
            allowed=f"jobs at {SCALES} of {cases}",
        )
    return Pairs(tuple(pairs), tuple(alone))


def _read(summary: Summary) -> Mapping[str, Any]:
    """What is published of the job's case; empty where nothing is."""
    identity = summary.identity
    path = find(f"{NAME}/{identity.case}", (CONF,)) if identity.main_framework else None
    return read_yaml(path) if path else {}


def _scale_of(summary: Summary) -> str:
    return summary.identity.scale


def _scale(row: Row) -> str:
    """A100x2x8 → 2x8."""
    return str(row["config"]).split("x", 1)[1]


def _nearness(row: Row, summary: Summary) -> tuple[bool, bool]:
    identity = summary.identity
    wanted = _settings(row, summary).get("train_batch_size", identity.train_batch_size)
    return row["precision"] == identity.precision, wanted == identity.train_batch_size


def _settings(row: Row, summary: Summary) -> dict[str, Any]:
    """The row's, and of what the job changed otherwise, those of the case."""
    own = {change.key: change.before for change in summary.changes if change.key in summary.config}
    return {**own, **{key: row[key] for key in SETTINGS if key in row}}


def _job(known: Mapping[str, Any], row: Row, job: NamedJob) -> NamedJob:
    """The row as a job of one round: what it does not tell is as in the job that is held against it."""
    nnodes, nproc = (int(number) for number in _scale(row).split("x"))
    hardware = str(row["config"]).split("x", 1)[0]
    summary = job.summary
    config = {
        **summary.config,
        **_settings(row, summary),
        "size": "full",
        "division": "closed",
        "precision": row["precision"],
        "vendor": {"name": VENDOR},
        "hardware": {"name": hardware},
        "nnodes": nnodes,
        "nproc": nproc,
    }
    like = usable(summary.results)[0]
    goal = like.target.metric if like.target else ""
    figures = {_figure(name, goal): row[name] for name in known["compares"] if name in row}
    software = {"versions": known.get("versions", {}), "code": {}}
    result = replace(
        like,
        identity=Identity.of(config),
        sample_data=False,
        synthetic=False,
        other_data="",
        target_reached=None,
        values={**figures, "device_name": known["machine"], "ranks": like.values.get("ranks")},
        built={**like.built, "software": software},
        monitors={},
    )
    name = f"{summary.identity.case}-{row['config']}"
    return NamedJob(NAME, summary_of(name, [result], config, ()))


def _figure(name: str, metric: str) -> str:
    return f"final_{name}" if name == metric else name
