"""A run's figures for other programs: what stands in each file, and that the JSON is what its schema says."""

from __future__ import annotations

import copy
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from example_results import make_run
from jsonschema import Draft202012Validator
from recorded import recorded_run

from flagperf import report
from flagperf.export.files import write
from flagperf.export.record import UNITS, benchmark
from flagperf.results.summary import FIGURES, STEPS
from flagperf.run import command_file

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "benchmark.schema.json").read_text())


def exported(run: Path, name: str) -> Path:
    path = run.parent / name
    write(benchmark(run, report.read_run(run)), path)
    return path


def problems(record: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(SCHEMA).iter_errors(record)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two rounds of a job that changes three keys."""
    make_run(tmp_path / "run")
    return tmp_path / "run"


def test_a_job_is_a_row(run: Path) -> None:
    (row,) = csv.DictReader(exported(run, "summary.csv").read_text().splitlines())
    assert row == {
        "run": "run",
        "job": "resnet50-pytorch-A100x2x8",
        "case": "resnet50",
        "framework": "pytorch",
        "size": "full",
        "revision": "1",
        "vendor": "nvidia",
        "hardware": "A100",
        "nnodes": "2",
        "nproc": "8",
        "precision": "amp_bf16",
        "division": "closed",
        "train_batch_size": "",
        "verdict": "VALID",
        "rounds_that_count": "2",
        "rounds_that_reached_the_target": "2",
        "throughput_unit": "images/s",
        "e2e_time": "25.0",
        "p_whole": "160.0",
        "p_train": "177.77777777777777",
        "p_core": "200.0",
        "final_acc1": "95.5",
        "steps_to_target": "100.0",
        **{
            f"{name}_stdev": "0.0"
            for name in ("e2e_time", "p_whole", "p_train", "p_core", "final_acc1", "steps_to_target")
        },
    }


def test_sheets(run: Path) -> None:
    book = openpyxl.load_workbook(exported(run, "run.xlsx"))
    sheets = {sheet.title: [[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in book.worksheets}
    assert {name: len(rows) for name, rows in sheets.items()} == {"jobs": 2, "rounds": 3, "changes": 4}
    head, first, second = sheets["rounds"]
    assert [dict(zip(head, row, strict=True))["p_whole"] for row in (first, second)] == [160, 160]
    assert sheets["changes"][:2] == [
        ["run", "job", "key", "before", "after", "source"],
        ["run", "resnet50-pytorch-A100x2x8", "lr", 0.1, 0.8, "tuning nvidia/resnet50/A100x2x8"],
    ]


def test_a_text_is_never_a_formula(run: Path) -> None:
    record = benchmark(run, report.read_run(run))
    record["jobs"][0]["changes"][0]["after"] = '=HYPERLINK("http://a")'
    record["jobs"][0]["changes"][1]["after"] = "\x07bell"
    write(record, run.parent / "run.xlsx")
    sheet = openpyxl.load_workbook(run.parent / "run.xlsx")["changes"]
    assert [(sheet[cell].value, sheet[cell].data_type) for cell in ("E2", "E3")] == [
        ('=HYPERLINK("http://a")', "s"),
        ("\\x07bell", "s"),
    ]


NO_FORMULAS = {
    "=1+1": "'=1+1",
    "@SUM(A1)": "'@SUM(A1)",
    "+1": "'+1",
    "-x": "'-x",
    "\t=1": "'\t=1",
    " =1": "' =1",
    "a=1": "a=1",
    "\x1b]0;x\x07": "\\x1b]0;x\\x07",
}


@pytest.mark.parametrize(("text", "cell"), NO_FORMULAS.items())
def test_a_text_of_a_csv_file_is_never_a_formula_or_an_escape(run: Path, text: str, cell: str) -> None:
    record = benchmark(run, report.read_run(run))
    record["jobs"][0] |= {"case": text, "rounds_that_count": -1}
    record["jobs"][0]["figures"][text] = record["jobs"][0]["figures"]["p_whole"]
    write(record, run.parent / "run.csv")
    with (run.parent / "run.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["case"], row["rounds_that_count"], cell in row) == (cell, "-1", True)


# ---------------------------------------------------------------- benchmark.json


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["two-rounds", "sweep"])
def test_recorded_runs_are_as_the_schema_says(tmp_path: Path, name: str) -> None:
    run = recorded_run(tmp_path, name)
    command_file.keep(command_file.Command(("nproc=2",), False, (), "/home/me", 5.0), run)
    record = json.loads(exported(run, "benchmark.json").read_text())
    assert problems(record) == []
    assert record["command"]["line"] == "flagperf nproc=2"
    assert [len(job["rounds"]) for job in record["jobs"]] == {"two-rounds": [2], "sweep": [1, 1]}[name]


def test_figures_have_units_and_statistics(tmp_path: Path) -> None:
    record = json.loads(exported(recorded_run(tmp_path), "benchmark.json").read_text())
    (job,) = record["jobs"]
    p_train = [one["figures"]["p_train"] for one in job["rounds"]]
    figure = job["figures"]["p_train"]
    assert (figure["unit"], figure["n"], figure["min"], figure["max"]) == ("images/s", 2, min(p_train), max(p_train))
    assert {name: found["unit"] for name, found in job["figures"].items() if name != "p_train"} == {
        "e2e_time": "s",
        "p_whole": "images/s",
        "p_core": "images/s",
        "steady_throughput": "images/s",
        "peak_memory": "GiB",
        "final_acc1": "%",
        "steps_to_target": "steps",
    }


def test_the_schema_names_each_figure() -> None:
    described = set(SCHEMA["$defs"]["round"]["properties"]["figures"]["properties"])
    assert described | {STEPS} == set(UNITS)
    summed_up = set(SCHEMA["$defs"]["job"]["properties"]["figures"]["properties"])
    assert {*FIGURES, STEPS} <= summed_up <= set(UNITS)


def _set(*path: Any) -> Callable[[Any], None]:
    """Change the value at a path; the last of its words is the new value."""
    *keys, last, value = path

    def change(record: Any) -> None:
        for key in keys:
            record = record[key]
        record[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_set("more", 1), id="a field of the run"),
        pytest.param(_set("jobs", 0, "more", 1), id="a field of a job"),
        pytest.param(_set("jobs", 0, "rounds", 0, "figures", "speed", 1), id="a figure"),
        pytest.param(_set("jobs", 0, "rounds", 0, "figures", "p_core", "fast"), id="a text"),
        pytest.param(_set("jobs", 0, "verdict", "GOOD"), id="a verdict"),
        pytest.param(_set("jobs", 0, "figures", "p_core", "n", 0), id="no rounds"),
        pytest.param(_set("schema", 2), id="another schema"),
        pytest.param(lambda record: record["jobs"][0].pop("case"), id="no case"),
    ],
)
def test_the_schema_refuses_what_is_not_described(tmp_path: Path, change: Callable[[Any], None]) -> None:
    run = recorded_run(tmp_path)
    record = json.loads(json.dumps(benchmark(run, report.read_run(run))))
    changed = copy.deepcopy(record)
    change(changed)
    assert (problems(record), len(problems(changed))) == ([], 1)
