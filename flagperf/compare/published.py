"""The figures that FlagPerf publishes of a case (conf/published/), as a job for comparisons."""

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

NAME = "published"  # this word in place of the folder of a run
SCALES = "1x1, 1x8 and 2x8"  # the scales of FlagPerf's figures
VENDOR = "nvidia"  # the vendor of FlagPerf's figures
SETTINGS = ("train_batch_size", "lr")  # of a row; otherwise the case's

Row = Mapping[str, Any]


def pair_published(jobs: Iterable[NamedJob]) -> Pairs:
    """Each job with the published row of its case and scale that is nearest in precision, then in batch size.

    Raises:
        ConfigError: no job has a published row.
    """
    pairs, unpaired = [], []
    for job in jobs:
        known = _read(job.summary)
        rows = [row for row in known.get("results", ()) if _scale(row) == job.summary.identity.scale]
        if rows and usable(job.summary.results):
            pairs.append((_job(known, max(rows, key=lambda row: _nearness(row, job.summary)), job), job))
        else:
            unpaired.append(job.name)
    if not pairs:
        cases = ", ".join(sorted(file.stem for file in (CONF / NAME).glob("*.yaml")))
        raise ConfigError(
            "FlagPerf publishes nothing that compares with this",
            given=", ".join(unpaired),
            allowed=f"jobs at {SCALES} of {cases}",
        )
    return Pairs(tuple(pairs), tuple(unpaired))


def _read(summary: Summary) -> Mapping[str, Any]:
    """The file of the job's case in conf/published/; empty where the case has none."""
    identity = summary.identity
    path = find(f"{NAME}/{identity.case}", (CONF,)) if identity.main_framework else None
    return read_yaml(path, aliases=True) if path else {}


def _scale(row: Row) -> str:
    """A100x2x8 → 2x8."""
    return str(row["config"]).split("x", 1)[1]


def _nearness(row: Row, summary: Summary) -> tuple[bool, bool]:
    identity = summary.identity
    batch_size = _settings(row, summary).get("train_batch_size", identity.train_batch_size)
    return row["precision"] == identity.precision, batch_size == identity.train_batch_size


def _settings(row: Row, summary: Summary) -> dict[str, Any]:
    """The settings of the row; for other changes of the job the values of the case."""
    stated = {change.key: change.before for change in summary.changes if change.key in summary.config}
    return {**stated, **{key: row[key] for key in SETTINGS if key in row}}


def _job(known: Mapping[str, Any], row: Row, job: NamedJob) -> NamedJob:
    """The row as a job with one round. Facts that the row lacks are those of the job that is compared with it."""
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
    names = {name: f"final_{name}" if name == goal else name for name in known["compares"] if name in row}
    figures = {figure: row[name] for name, figure in names.items()}
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
