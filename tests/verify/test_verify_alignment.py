"""The alignment of a job, recomputed from the copies of its logs: a record of other logs differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_alignment import write_alignment

from flagperf.verify import check


def job_with(folder: Path, record: dict[str, Any]) -> set[str]:
    """The figures of the alignment of a job that differ; a job with this record in its configuration."""
    (folder / "config.yaml").write_text(yaml.safe_dump({"nnodes": 1, "nproc": 1, "alignment_record": record}))
    rows = [row for row in check(folder.parent) if row.figure.startswith(("alignment", "its files"))]
    return {row.figure for row in rows if row.answer == "differs"}


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    # fields of the record in config.yaml and align.json; keywords of the logs; the figures that differ
    "as it was": ({}, {}, set()),
    "logs of a device that left the band": (
        {},
        {"factor": 1.001},
        {"alignment plain", "alignment dropout", "alignment inside"},
    ),
    "logs of another device": (
        {},
        {"hardware": {"name": "A1"}},
        {"alignment plain: device", "alignment dropout: device"},
    ),
    "other curves": ({"golden": "0" * 64}, {}, {"alignment golden"}),
    "a curve fewer": ({"curves": {"plain": "inside"}}, {}, {"alignment curves", "alignment dropout"}),
}


@pytest.mark.parametrize(("fields", "logs", "differing"), CHANGES.values(), ids=CHANGES.keys())
def test_a_record_follows_from_its_logs(
    tmp_path: Path, fields: dict[str, Any], logs: dict[str, Any], differing: set[str]
) -> None:
    folder = tmp_path / "job/alignment"
    folder.mkdir(parents=True)
    record = {**write_alignment(folder), **fields}
    write_alignment(folder, **logs)
    (folder / "align.json").write_text(json.dumps(record))
    assert job_with(folder.parent, record) == differing


def test_another_record_or_none(tmp_path: Path) -> None:
    folder = tmp_path / "job/alignment"
    folder.mkdir(parents=True)
    record = write_alignment(folder)
    write_alignment(folder, vendor={"name": "acme"})
    assert job_with(folder.parent, record) == {
        "alignment_record",
        "alignment plain: device",
        "alignment dropout: device",
    }
    (folder / "plain.log").unlink()
    assert "its files" in job_with(folder.parent, record)
