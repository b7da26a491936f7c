"""Statistics over rounds, and summary.json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from example_results import CONFIG, a_result

from flagperf.contract.records import Change, Statistics
from flagperf.errors import ConfigError
from flagperf.results import summary
from flagperf.results.summary import summary_of


def test_statistics() -> None:
    """n, mean, sample standard deviation, min, max and coefficient of variation; counted by hand."""
    results = [a_result(round=n, values={"p_core": value}) for n, value in enumerate((90.0, 100.0, 110.0), 1)]
    assert summary_of("job", results, CONFIG, ()).statistics == {
        "p_core": Statistics(n=3, mean=100.0, stdev=10.0, min=90.0, max=110.0, cv=0.1)
    }


def test_only_rounds_that_can_be_used_count() -> None:
    results = [
        a_result(round=1, values={"p_core": 90.0}),
        a_result(round=2, values={"p_core": 500.0}, verdict="INVALID", reasons=("MFU is 1.20",)),
        a_result(round=3, values={"p_core": 70.0}, status="failed", verdict="INVALID"),
        a_result(round=4, values={"p_core": 110.0}, verdict="SUSPECT", reasons=("a slow rank",)),
        a_result(round=5, values={"p_core": None}),
    ]
    done = summary_of("job", results, CONFIG, ())
    assert done.statistics["p_core"] == Statistics(
        2, 100.0, pytest.approx(math.sqrt(200)), 90.0, 110.0, pytest.approx(math.sqrt(2) / 10)
    )
    assert [result.round for result in done.results] == [1, 2, 3, 4, 5]
    assert summary.verdict(done) == "INVALID"


@pytest.mark.parametrize(
    ("figure", "values", "config", "reasons"),
    [
        pytest.param("p_core", (100.0, 107.0), {}, (), id="4.8 %"),
        pytest.param("p_core", (100.0, 108.0), {}, ("p_core", "5.44 %", "0.05"), id="5.4 %"),
        pytest.param("p_whole", (100.0, 108.0), {}, ("p_whole", "5.44 %", "0.05"), id="any of the throughputs"),
        pytest.param("p_core", (100.0, 108.0), {"max_cv": 0.06}, (), id="allowed"),
        pytest.param("p_core", (100.0, 102.0), {"max_cv": 0.01}, ("p_core", "1.4 %", "0.01"), id="not allowed"),
        pytest.param("e2e_time", (100.0, 200.0), {}, (), id="no throughput"),
        pytest.param("p_core", (100.0,), {}, (), id="one round"),
    ],
)
def test_rounds_that_differ(
    figure: str, values: tuple[float, ...], config: dict[str, float], reasons: tuple[str, ...], tmp_path: Path
) -> None:
    results = [a_result(round=n, values={figure: value}) for n, value in enumerate(values, 1)]
    done = summary_of("job", results, {**CONFIG, **config}, ())
    of, cv, most = reasons or ("", "", "")
    said = f"the throughput of its rounds varies by {cv} (coefficient of variation of {of}), over max_cv={most}."
    assert done.reasons == ((f"{said} Was the machine busy with something else?",) if reasons else ())
    record = json.loads(summary.write(done, tmp_path).read_text())
    assert (record["verdict"], record["reasons"]) == ("SUSPECT" if reasons else "VALID", list(done.reasons))
    assert summary.read(tmp_path) == done


def test_steps_to_the_target_are_those_of_the_rounds_that_reached_it() -> None:
    reached = {1: True, 2: False, 3: True, 4: None}
    results = [a_result(round=n, values={"global_steps": 100 * n}, target_reached=one) for n, one in reached.items()]
    assert summary_of("job", results, CONFIG, ()).statistics == {
        "steps_to_target": Statistics(
            2, 200.0, pytest.approx(math.sqrt(20000)), 100, 300, pytest.approx(math.sqrt(0.5))
        )
    }


def test_one_round_has_no_deviation() -> None:
    done = summary_of("job", [a_result(values={"e2e_time": 12.5, "final_acc1": 97.0})], CONFIG, ())
    assert done.statistics == {
        "e2e_time": Statistics(1, 12.5, None, 12.5, 12.5, None),
        "final_acc1": Statistics(1, 97.0, None, 97.0, 97.0, None),
    }


def test_no_round_counts() -> None:
    done = summary_of("job", [a_result(status="failed", verdict="INVALID")], CONFIG, ())
    assert done.statistics == {}


def test_summary_json_reads_back(tmp_path: Path) -> None:
    changes = (Change("lr", 0.1, 0.2, "command line"), Change("clip_grad", None, 1.0, "tuning nvidia/glm/A100"))
    results = [a_result(round=1), a_result(round=2, values={"final_loss": math.inf, "p_core": 3.0})]
    done = summary_of("job", results, CONFIG, changes)
    path = summary.write(done, tmp_path)
    assert path == tmp_path / "summary.json"
    assert json.loads(path.read_text())["schema"] == 3
    assert summary.read(tmp_path) == done


ONE = {"n": 1, "mean": 1.0, "stdev": None, "min": 1.0, "max": 1.0, "cv": None}
SUMMARY: dict[str, Any] = {
    "schema": 3,
    "name": "x",
    "config": {},
    "reasons": [],
    "changes": [],
    "results": [],
    "statistics": {"p_core": ONE, "final_loss": {**ONE, "mean": "nan", "max": "inf", "cv": "nan"}},
}


def test_all_figures_are_read(tmp_path: Path) -> None:
    """A loss may be infinite or no number."""
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    loss = summary.read(tmp_path).statistics["final_loss"]
    assert (math.isnan(loss.mean), loss.max) == (True, math.inf)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "not a result of flagperf", id="torn"),
        pytest.param("[1]", "not a result of flagperf", id="not a mapping"),
        pytest.param('{"name": "x"}', "not a result of flagperf", id="no schema"),
        pytest.param('{"schema": 99}', "written by another version", id="another schema"),
        pytest.param('{"schema": 1}', "not a summary of flagperf", id="no fields"),
        *(
            pytest.param(json.dumps({**SUMMARY, **other}), "not a summary of flagperf", id=f"{other}")
            for other in (
                {"name": 3},
                {"config": []},
                {"reasons": "x"},
                {"statistics": {"p_core": {**ONE, "mean": "x"}}},
                {"statistics": {"p_core": {**ONE, "cv": []}}},
                {"statistics": {"p_core": [1]}},
                {"changes": [{"key": 3, "before": 1, "after": 2, "source": "x"}]},
                {"changes": [{"key": "lr"}]},
                {"results": 3},
                {"results": [3]},
                {"results": None},
            )
        ),
    ],
)
def test_unreadable(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        summary.read(tmp_path)
    assert (caught.value.problem, caught.value.where) == (message, str(tmp_path / "summary.json"))
