"""Which jobs of an earlier run are done, so that a run that resumes it takes them over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from example import example_job
from example_results import a_result

from flagperf.config.schema.values import JobConfig
from flagperf.results import summary
from flagperf.run.done_before import taken_over

IDENTITY = example_job().identity
DONE = [a_result(round=number, identity=IDENTITY) for number in (1, 2)]
CASES = {
    "all rounds ended": (DONE, {}, True),
    "other places": (DONE, {"result_dir": "/x", "run_name": "y", "log_level": "debug", "code": {"cases": "z"}}, True),
    "a round failed": ([DONE[0], a_result(round=2, status="failed")], {}, False),
    "a round is missing": (DONE[:1], {}, False),
    "another configuration": (DONE, {"max_steps": 21}, False),
    "a key that it had not": (DONE, {"synthetic": True}, False),
}


def configured(tmp_path: Path, **changed: object) -> JobConfig:
    return example_job(repeat=2, config={"resume": str(tmp_path / "earlier"), **changed})


@pytest.mark.parametrize(("results", "changed", "is_done"), CASES.values(), ids=CASES.keys())
def test_taken_over(tmp_path: Path, results: list[object], changed: dict[str, object], is_done: bool) -> None:
    before, now = configured(tmp_path, resume=None), configured(tmp_path, **changed)
    earlier = tmp_path / "earlier" / before.name
    (earlier / "round1").mkdir(parents=True)
    (earlier / "round1" / "rank0.out.log").write_text("log")
    done = summary.summary_of(before.name, results, before.config, before.changes)  # type: ignore[arg-type]
    summary.write(done, earlier)
    (tmp_path / "new" / now.name).mkdir(parents=True)
    summary_taken = taken_over(now, tmp_path / "new")
    assert summary_taken == (done if is_done else None)
    assert (tmp_path / "new" / now.name / "round1" / "rank0.out.log").exists() == is_done


def test_a_batch_size_that_was_found(tmp_path: Path) -> None:
    """The size that train_batch_size=auto found for the earlier run is not looked for again."""
    before = configured(tmp_path, train_batch_size=24)
    now = replace(configured(tmp_path), sized=lambda size: configured(tmp_path, train_batch_size=size))
    earlier = tmp_path / "earlier" / before.name
    earlier.mkdir(parents=True)
    results = [replace(result, identity=before.identity) for result in DONE]
    done = summary.summary_of(before.name, results, before.config, before.changes)
    summary.write(done, earlier)
    assert taken_over(now, tmp_path / "new") == done


def test_none_to_resume(tmp_path: Path) -> None:
    assert taken_over(example_job(), tmp_path) is None


def test_a_run_that_was_broken_off(tmp_path: Path) -> None:
    assert taken_over(configured(tmp_path), tmp_path / "new") is None
