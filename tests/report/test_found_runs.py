"""The runs of a result folder: a line a job, newest first, as the summaries say."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from example_results import CONFIG, a_result

from flagperf.report.runs import INDEX, Listed, listed
from flagperf.results.summary import summary_of, write

JOB = "resnet50-pytorch-A100x2x8"


def a_run(folder: Path, name: str, began: float, *, jobs: tuple[str, ...] = (JOB,), **changed: object) -> Path:
    for number, job in enumerate(jobs):
        place = folder / name / job
        place.mkdir(parents=True)
        (place / "config.yaml").write_text("case: resnet50\n")
        (folder / name / "flagperf_run.log").touch()
        values = {"p_train": 1234.5}
        result = a_result(**{"started": began + number, "values": values, **changed})
        write(summary_of(job, [result], CONFIG, ()), place)
    return folder / name


def speed(run: str, began: float, note: str = "", verdict: str = "VALID", job: str = JOB) -> Listed:
    rate = None if verdict == "INVALID" else 1234.5
    identity = ("resnet50", "nvidia", "A100", "2x8", "amp_bf16")
    return Listed(began, run, job, verdict, "1,234 images/s" if rate else "–", note, rate, *identity)


def test_newest_first_and_every_job(tmp_path: Path) -> None:
    a_run(tmp_path, "a", 1000.0, sample_data=True)
    a_run(tmp_path, "b", 3000.0, verdict="INVALID", reasons=("rank 1 was killed", "another"))
    a_run(tmp_path, "c", 2000.0, jobs=("x", "y"), notes=("outage of 3 s",))
    (tmp_path / "no run").mkdir()
    assert listed(tmp_path) == [
        speed("b", 3000.0, "rank 1 was killed", "INVALID"),
        speed("c", 2001.0, "outage of 3 s", job="y"),
        speed("c", 2000.0, "outage of 3 s", job="x"),
        speed("a", 1000.0, "sample data"),
    ]


def test_a_run_that_is_not_summed_up(tmp_path: Path) -> None:
    run = a_run(tmp_path, "a", 1000.0)
    (run / JOB / "summary.json").unlink()
    began = (run / "flagperf_run.log").stat().st_mtime
    assert listed(tmp_path) == [Listed(began, "a", JOB, "–", "–", f"not summed up: flagperf report {run}")]
    with (run / "flagperf_run.log").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert listed(tmp_path) == [Listed(began, "a", JOB, "RUNNING", "–", "")]


def test_a_damaged_summary_costs_its_own_line(tmp_path: Path) -> None:
    a_run(tmp_path, "a", 1000.0)
    run = a_run(tmp_path, "b", 500.0)
    (run / JOB / "summary.json").write_text("[1, 2")
    found = {job.run: (job.verdict, job.note.partition(":")[0]) for job in listed(tmp_path)}
    assert found == {"a": ("VALID", ""), "b": ("–", "summary.json is damaged")}


def test_the_index_answers_for_runs_that_did_not_change(tmp_path: Path) -> None:
    for name in "ab":
        a_run(tmp_path, name, 1000.0)
    before = listed(tmp_path)
    index = json.loads((tmp_path / INDEX).read_text())
    index["runs"]["a"]["jobs"][0]["note"] = "from the index"
    (tmp_path / INDEX).write_text(json.dumps(index))
    assert [job.note for job in listed(tmp_path)] == ["from the index", ""]
    summary = tmp_path / "a" / JOB / "summary.json"
    summary.write_text(summary.read_text() + "\n")
    assert listed(tmp_path) == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("", id="empty"),
        pytest.param("[" * 100_000, id="nested"),
        pytest.param('{"version": 0, "runs": {}}', id="another version"),
        pytest.param('{"version": 2, "runs": {"a": {"stamps": {}, "jobs": [{"run": "a"}]}}}', id="fields missing"),
        pytest.param('{"version": 2, "runs": [1]}', id="no mapping"),
    ],
)
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: str) -> None:
    a_run(tmp_path, "a", 1000.0)
    (tmp_path / INDEX).write_text(damage)
    assert listed(tmp_path) == [speed("a", 1000.0)]
    assert json.loads((tmp_path / INDEX).read_text())["runs"].keys() == {"a"}
