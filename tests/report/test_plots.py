"""Plots as data, and what tables and sentences leave out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_results import a_result
from test_report import a_summary

from flagperf.contract.perflog import Event
from flagperf.report import cells, remarks
from flagperf.report.charts import earlier_logs, job_charts, values
from flagperf.report.cost import restart_lines
from flagperf.report.machine import host_rows
from flagperf.report.plots import Point, lines
from flagperf.report.run_charts import overlays
from flagperf.results.restarts import chains

HEAD = {"title": "Loss", "x": "step", "y": "loss"}


@pytest.mark.parametrize(
    ("series", "more", "chart"),
    [
        pytest.param({"a": []}, {}, {}, id="no points"),
        pytest.param(
            {"a": [[1, 2.0], [2, 1.0]], "b": [[1, 3.0]]},
            {"zero": True},
            {
                "kind": "lines",
                **HEAD,
                "series": [{"name": "a", "points": [[1, 2.0], [2, 1.0]]}, {"name": "b", "points": [[1, 3.0]]}],
                "zero": True,
            },
            id="curves",
        ),
        pytest.param(
            {"a": [[0, 2.0]], "b": [[1, 1234.5]]},
            {"labels": [[0, "lr 0.1"]], "marks": [{"at": 1.0, "label": "target 1"}]},
            {
                "kind": "number",
                **HEAD,
                "numbers": [
                    {"name": "a", "value": "2", "note": "loss where step is lr 0.1; target 1"},
                    {"name": "b", "value": "1,234", "note": "loss where step is 1; target 1"},
                ],
            },
            id="a point a curve: numbers",
        ),
        pytest.param(
            {"a": [[4, 2.0]]},
            {"earlier": {"a": []}},
            {"kind": "number", **HEAD, "numbers": [{"name": "a", "value": "2", "note": "loss where step is 4"}]},
            id="resumed, and nothing before",
        ),
        pytest.param(
            {"a": [[1, 2.0], [5, math.nan], [6, math.nan]]},
            {},
            {"kind": "lines", **HEAD, "series": [{"name": "a", "points": [[1, 2.0]]}], "lost": [[5, "NaN"]]},
            id="NaN has a mark, and is no number",
        ),
        pytest.param(
            {"a": [[1, math.inf]], "b": [[1, 2.0], [2, -math.inf]]},
            {},
            {
                "kind": "lines",
                **HEAD,
                "series": [{"name": "b", "points": [[1, 2.0]], "colour": 1}],
                "lost": [[1, "a: inf"], [2, "b: -inf"]],
            },
            id="several curves are named",
        ),
        pytest.param(
            {"a": [], "b": [[5, 2.0]]},
            {"earlier": {"a": [[1, 9.0]], "b": [[1, 4.0], [2, 3.0]]}},
            {
                "kind": "lines",
                **HEAD,
                "series": [
                    {"name": "b", "points": [[5, 2.0]], "colour": 1},
                    {
                        "name": "b, before it was resumed",
                        "points": [[1, 4.0], [2, 3.0]],
                        "colour": 1,
                        "earlier": True,
                    },
                ],
            },
            id="resumed",
        ),
    ],
)
def test_lines(series: dict[str, list[Point]], more: dict[str, Any], chart: dict[str, Any]) -> None:
    assert lines("Loss", "step", "loss", series, **more) == chart


def a_round(folder: Path, first: int, last: int, resume: Path | None) -> None:
    """A round with a log of steps, and the checkpoints that it resumes."""
    log = folder / "a_noderank0" / "rank0.out.log"
    log.parent.mkdir(parents=True)
    start = [Event("SUBMIT_INFO", time_ms=7_000), Event("TRAIN_START", time_ms=10_000)]
    steps = [
        Event("STEP_END", {"step": step, "loss": float(step)}, time_ms=10_000 * (2 + step - first))
        for step in range(first, last + 1)
    ]
    log.write_text("".join(f"{event.line()}\n" for event in [*start, *steps]), encoding="utf-8")
    (folder / "config.yaml").write_text(f"resume: {resume or 'null'}\n", encoding="utf-8")


def test_a_resumed_run_shows_the_runs_before(tmp_path: Path) -> None:
    """Each up to the step at which the next one went on."""
    a_round(tmp_path / "first/job/round1", 1, 6, None)
    a_round(tmp_path / "second/job/round1", 5, 9, tmp_path / "first/job/round1/checkpoint")
    a_round(tmp_path / "third/job/round1", 9, 12, tmp_path / "second/job/round1/checkpoint")
    job = a_summary(a_result(values={"resumed_from_step": 8}))
    before = chains(tmp_path / "third/job", job.results)
    assert restart_lines(job.results, before) == [
        "Round 1 resumed an earlier run. Runs before it: 2; their starts 6 s, training that counts 80 s, training lost "
        "after the last checkpoint 30 s. Restarts and lost training took 36 s"
    ]
    earlier = earlier_logs(before)
    assert values(earlier[1], "STEP_END", "loss") == [[step, float(step)] for step in range(1, 9)]
    (loss,) = job_charts(job, {1: [Event("STEP_END", {"step": 9, "loss": 9.0}, time_ms=0)]}, earlier)
    assert [(curve["name"], len(curve["points"])) for curve in loss["series"]] == [
        ("round 1", 1),
        ("round 1, before it was resumed", 8),
    ]


@pytest.mark.parametrize(
    ("end", "mark"),
    [
        pytest.param({"diverged_step": 2}, [2, "NaN"], id="its own step, which is not logged"),
        pytest.param({}, [5, "NaN"], id="an older log"),
    ],
)
def test_a_loss_is_lost_at_the_step_that_the_failure_names(end: dict[str, int], mark: list[object]) -> None:
    steps = {1: 3.0, 5: math.nan, 6: math.nan}
    events = [Event("STEP_END", {"step": step, "loss": loss}, time_ms=0) for step, loss in steps.items()]
    events.append(Event("TRAIN_END", end, time_ms=0))
    (chart,) = job_charts(a_summary(a_result()), {1: events}, {})
    (overlaid,) = overlays([(replace(a_summary(a_result()), name=name), {1: events}) for name in "ab"])
    assert (chart["series"][0]["points"], chart["lost"]) == ([[1, 3.0]], [mark])
    assert overlaid["lost"] == [[mark[0], f"{name}: NaN"] for name in "ab"]


@pytest.mark.parametrize(
    ("resume", "step"),
    [
        pytest.param("gone/checkpoint", 8, id="the earlier run is gone"),
        pytest.param(None, 8, id="no run is named"),
        pytest.param("first/checkpoint", None, id="not resumed"),
    ],
)
def test_no_earlier_part(tmp_path: Path, resume: str | None, step: int | None) -> None:
    a_round(tmp_path / "first", 1, 6, None)
    a_round(tmp_path / "job/round1", 5, 9, tmp_path / resume if resume else None)
    assert chains(tmp_path / "job", [a_result(values={"resumed_from_step": step})]) == {}


def test_columns_without_a_value_are_left_out() -> None:
    rows = [{"a": "1", "b": "–", "c": "", "d": "–"}, {"a": "–", "b": "–", "c": "–", "d": "2"}]
    assert cells.without_absent(rows) == [{"a": "1", "d": "–"}, {"a": "–", "d": "2"}]
    assert cells.without_absent([]) == []


def test_a_reason_stands_once() -> None:
    """Of several rounds, and of several jobs."""
    busy = {"verdict": "SUSPECT", "reasons": ("the host was busy",)}
    first = a_summary(a_result(**busy), a_result(round=2), a_result(round=3, **busy), name="first")
    second = a_summary(a_result(**busy), a_result(round=3, **busy), name="second")
    third = a_summary(name="third")
    problem = ("SUSPECT", ("the host was busy",), None)
    assert list(remarks.problems(first)) == [("rounds 1, 3", *problem)]
    assert remarks.problems_of_run([first, second]) == [("all 2 jobs, rounds 1, 3", *problem)]
    assert remarks.problems_of_run([first, second, third]) == [("first, second, rounds 1, 3", *problem)]


def test_watched_chips_are_accelerators() -> None:
    """Also where the host named no device file."""
    watched = a_result(monitors={"nodes": {"a_noderank0": {"cpu": {"mean": 0.5}, "nvidia": {"devices": 8}}}})
    hosts = {"a_noderank0": {"host": "a", "devices": "none"}, "b_noderank1": {"host": "b", "devices": "none"}}
    assert [row["accelerators"] for row in host_rows(hosts, [watched])] == ["8", "–"]


@pytest.mark.parametrize(
    ("notes", "left", "line"),
    [
        pytest.param(["a; b", "a; b"], ["–", "–"], "Notes on all jobs: a; b", id="equal"),
        pytest.param(["a", "b"], ["a", "b"], "", id="different"),
        pytest.param(["a", "–"], ["a", "–"], "", id="of one job"),
        pytest.param(["–", "–"], ["–", "–"], "", id="none"),
        pytest.param(["a"], ["a"], "", id="a single job"),
    ],
)
def test_notes_of_all_jobs_stand_once(notes: list[str], left: list[str], line: str) -> None:
    rows, shared = cells.shared_notes([{"notes": note} for note in notes])
    assert ([row["notes"] for row in rows], shared) == (left, line)
