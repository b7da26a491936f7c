"""The least time of a whole schedule, and whether a week is enough for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flagperf_command import flagperf
from test_scaling import TRACE, config

from flagperf.config.compose import compose
from flagperf.config.files.search_path import CONF
from flagperf.predict.scaling import scale_of
from flagperf.predict.schedule import REFERENCE, WEEK, schedule_of
from flagperf.predict.times import figures_of
from flagperf.report.prediction import age, schedule_lines

EXTENT = {"extent": {"unit": "images", "train": 808}}
BEGIN, END = "<!-- least_times -->", "<!-- /least_times -->"
STEP = 1.0  # seconds at least of TRACE, with 8 samples on 8 ranks


@pytest.mark.parametrize(
    ("limits", "schedule", "line"),
    [
        pytest.param(
            {"max_steps": 600},
            (600, "max_steps"),
            "The whole schedule (max_steps: 600 steps) takes at least 10 min; FlagPerf allows a case a week.",
            id="steps",
        ),
        pytest.param(
            {"max_epochs": 2, "data": EXTENT},
            (202, "max_epochs"),
            "The whole schedule (max_epochs: 202 steps) takes at least 3.37 min; FlagPerf allows a case a week.",
            id="epochs",
        ),
        pytest.param(
            {"max_samples_termination": 8_000_001},
            (1_000_001, "max_samples_termination"),
            "The whole schedule (max_samples_termination: 1,000,001 steps) takes at least 11.6 days: longer than the "
            "week that FlagPerf allows a case.",
            id="samples, and longer than a week",
        ),
        pytest.param(
            {"max_steps": 10**6, "max_epochs": 1, "data": EXTENT},
            (101, "max_epochs"),
            "The whole schedule (max_epochs: 101 steps) takes at least 1.68 min; FlagPerf allows a case a week.",
            id="the first limit",
        ),
        pytest.param({"max_epochs": 2, "data": {}}, None, None, id="epochs of unknown data"),
        pytest.param({"max_time": 60}, None, None, id="a limit of time alone"),
        pytest.param({"max_steps": 600, "size": "tiny"}, None, None, id="a reduced size"),
    ],
)
def test_the_first_limit_ends_the_schedule(
    limits: Mapping[str, Any], schedule: tuple[int, str] | None, line: str | None
) -> None:
    given = {**config(1), "size": "full", **limits}
    scale = scale_of(TRACE, given, figures_of(given), 20.0)
    found = schedule_of(given, scale)
    assert (found and (found.steps, found.limit, found.seconds)) == (schedule and (*schedule, schedule[0] * STEP))
    assert list(schedule_lines(found)) == ([line] if line else [])
    assert found is None or found.within_a_week is (found.steps * STEP <= WEEK)


def test_no_time_where_the_product_lacks_figures() -> None:
    given = {**config(1), "size": "full", "max_steps": 3, "hardware": {"name": "X1", "peak_flops": {}}}
    found = schedule_of(given, scale_of(TRACE, given, figures_of(given), 20.0))
    assert found is not None and (found.seconds, found.within_a_week, list(schedule_lines(found))) == (None, None, [])


def test_ages() -> None:
    seconds = (59, 5399, 5400, 259199, 259200, 3e8)
    assert [age(number) for number in seconds] == ["0.983 min", "90 min", "1.5 h", "72 h", "3 days", "3,472 days"]


@pytest.mark.slow
@pytest.mark.torch
def test_check_of_a_case(tmp_path: Path) -> None:
    """The exit code says it, too. The second command has the trace of the first."""
    words = ("check", "model=distilbert")
    for further, code, end in (
        ((), 0, "FlagPerf allows a case a week."),
        (("max_epochs=10000",), 2, "longer than the week that FlagPerf allows a case."),
    ):
        done = flagperf(*words, *further, cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path))
        assert (done.returncode, done.stderr) == (code, "")
        head, line = done.stdout.splitlines()
        assert head == "distilbert-pytorch-A100x1x8 on 1 x 8 A100, 256 samples in a step"
        assert line.startswith("The whole schedule (max_epochs: ") and line.endswith(end)


def test_check_of_a_case_that_cannot_be_traced(tmp_path: Path) -> None:
    done = flagperf("check", "model=paddle/bert", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "flagperf: PaddlePaddle cases are not predicted: only PyTorch cases can be traced\n"


@pytest.mark.long
def test_the_table_of_all_cases_is_that_of_the_cases() -> None:
    """The steps follow from the files of a case and the samples of a step. Their least time needs a trace."""
    page = (CONF.parent / "docs/predict.md").read_text(encoding="utf-8")
    head, _, *lines = page.partition(f"{BEGIN}\n")[2].partition(f"\n{END}")[0].strip().splitlines()
    names = [name.strip() for name in head.strip("|").split("|")]
    rows = [dict(zip(names, map(str.strip, line.strip("|").split("|")), strict=True)) for line in lines]
    assert [row["case"] for row in rows] == sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
    given = {**config(1), "size": "full", "max_steps": 1}
    any_scale = scale_of(TRACE, given, figures_of(given), 20.0)
    for row in rows:
        case = compose([f"model={row['case']}", *REFERENCE, "size=full", "dry_run=true"]).config
        found = schedule_of(case, replace(any_scale, samples=int(row["samples of a step"].replace(",", ""))))
        assert found is not None
        assert (f"{found.steps:,}", f"`{found.limit}`") == (row["steps"], row["limit"]), row
        longer = (
            row["schedule at least"].endswith("days")
            and float(row["schedule at least"].split()[0].replace(",", "")) > 7
        )
        assert row["within a week"] == ("**no**" if longer else "yes"), row
