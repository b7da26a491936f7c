"""Which jobs are held against each other, which are refused, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from jobs_of import JOB, job

from flagperf.compare.jobs import compare, pair_by, pair_runs
from flagperf.errors import ConfigError

BERT = {"case": "bert"}


def names(pairs: Any) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    return [(base.name, other.name) for base, other in pairs.pairs], pairs.unpaired


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param(
            [[job("a")], [job("b", config=BERT)], [job("c")]],
            ([(f"a/{JOB}", f"b/{JOB}"), (f"a/{JOB}", f"c/{JOB}")], ()),
            id="the only jobs of their runs",
        ),
        pytest.param(
            [
                [job("a", name="r8"), job("a", name="r16", config={"nproc": 16}), job("a", name="b", config=BERT)],
                [
                    job("b", name="r16", config={"nproc": 16}),
                    job("b", name="r8"),
                    job("b", name="x", config={"nproc": 1}),
                ],
            ],
            ([("a/r8", "b/r8"), ("a/r16", "b/r16")], ("a/b", "b/x")),
            id="by case and scale",
        ),
        pytest.param(
            [[job("a", name="r"), job("a", name="b", config=BERT)], [job("b", name="r4", config={"nproc": 4})]],
            ([("a/r", "b/r4")], ("a/b",)),
            id="a case that is there once",
        ),
        pytest.param(
            [
                [job("a", name="1", sweep={"lr": "1"}), job("a", name="2", sweep={"lr": "2"})],
                [job("b", name="2", sweep={"lr": "2"}), job("b", name="3", sweep={"lr": "3"})],
            ],
            ([("a/2", "b/2")], ("a/1", "b/3")),
            id="by swept values",
        ),
    ],
)
def test_pairs_of_runs(runs: Any, expected: Any) -> None:
    assert names(pair_runs(runs)) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("nproc", ([("a/1", "a/8"), ("a/1", "b/8")], ("a/b",)), id="a key"),
        pytest.param("scale", ([("a/1", "a/8"), ("a/1", "b/8")], ("a/b",)), id="the scale"),
        pytest.param("vendor", ([("a/1", "b/8")], ("a/8", "a/b")), id="a group"),
    ],
)
def test_pairs_by_a_key(key: str, expected: Any) -> None:
    other = {"vendor": {"name": "acme"}}
    jobs = [
        job("a", name="1", config={"nproc": 1}),
        job("a", name="8"),
        job("a", name="b", config=BERT),
        job("b", name="8", config=other),
    ]
    assert names(pair_by(jobs, key)) == expected


def test_a_key_that_no_job_has() -> None:
    with pytest.raises(ConfigError) as caught:
        pair_by([job("a"), job("b")], "nporc")
    assert str(caught.value) == (
        "no job has this key\n  where:   command line\n  key:     by\n  given:   nporc\n"
        "  do:      give a key of the configuration, such as nproc, vendor.name or a swept key"
    )


def test_figures_and_what_differs() -> None:
    base = job("a", [99, 101])
    built = {"software": {"versions": {"torch": "2.15"}, "code": {"flagperf": "aa"}}}
    other = job("b", [94, 96], config={"nproc": 4, "lr": 0.2}, built=built)
    found = compare(base, other, margin=0.01)
    assert [(figure.name, figure.unit, figure.higher, figure.word) for figure in found.figures] == [
        ("p_train", "images/s", True, "undecided"),
        ("final_acc1", "%", True, "same"),
    ]
    assert found.differs == (("nproc", "8", "4"), ("lr", "0.1", "0.2"), ("version of torch", "2.14", "2.15"))
    assert (found.base_name, found.other_name) == (f"a/{JOB}", f"b/{JOB}")


EXTENSION: dict[str, Any] = {
    "replaced": {"network_hook": "fast.network"},
    "files": {"fast.py": "aa"},
    "has_code": True,
    "proof": None,
}
PROVED = {**EXTENSION, "files": {"fast.py": "bb"}, "proof": {"differences": {"loss": 0.0, "weights": 1e-6}}}


def test_code_of_a_vendors_own_is_a_difference() -> None:
    one, other, none = (
        job(name, config={"extension": said}) for name, said in (("a", EXTENSION), ("b", PROVED), ("c", None))
    )
    assert compare(one, other, margin=0.01).differs == (
        ("proof of the extension", "none", "differences up to 1e-06"),
        ("code of the extension", "95345e5b875b9347", "91b09201b6008583"),
    )
    assert compare(none, other, margin=0.01).differs == (
        ("vendor.extension.network_hook", "–", "fast.network"),
        ("proof of the extension", "–", "differences up to 1e-06"),
        ("code of the extension", "–", "91b09201b6008583"),
    )


def test_earlier_rounds_tell_how_rounds_vary() -> None:
    earlier = [job("c", [98, 99, 100, 101, 102]).summary, job("d", [100]).summary]
    figure = compare(job("a", [100]), job("b", [80]), margin=0.01, earlier=earlier).figures[0]
    assert (figure.word, figure.estimate.method) == (
        "worse",
        "Student's t with 4 degrees of freedom (4 from earlier rounds)",
    )


UNLIKE = {
    "case": ({"config": BERT}, "they train different things", "bert", "resnet50"),
    "revision": ({"config": {"revision": 2}}, "the case was changed between them", "2", "1"),
    "size": ({"config": {"size": "tiny"}}, "a reduced case says nothing of the full case", "tiny", "full"),
    "data": ({"sample_data": True}, "they trained on different data", "sample data", "the case's"),
    "division": ({"config": {"division": "open"}}, "an open run may have changed anything", "open", "closed"),
    "precision": ({"config": {"precision": "fp32"}}, "a narrower format is less work", "fp32", "amp_bf16"),
}


@pytest.mark.parametrize("key", UNLIKE)
def test_unlike_jobs_are_refused_unless_asked_for(key: str) -> None:
    changed, why, given, expected = UNLIKE[key]
    base, other = job("a"), job("b", **changed)
    with pytest.raises(ConfigError) as caught:
        compare(base, other, margin=0.01)
    assert str(caught.value) == (
        f"these jobs do not compare: {why}\n  where:   b/{JOB}\n  key:     {key}\n  given:   {given}\n"
        f"  allowed: {expected}, as in a/{JOB}\n"
        f"  do:      give jobs with the same {key}, or across={key} to compare them all the same"
    )
    assert compare(base, other, margin=0.01, across=[key]).figures


def test_a_job_without_a_round_that_counts() -> None:
    with pytest.raises(ConfigError) as caught:
        compare(job("a"), job("b", verdict="INVALID"), margin=0.01)
    assert str(caught.value) == (
        f"this job has no round that counts\n  where:   b/{JOB}\n  given:   INVALID\n"
        "  do:      flagperf report b says why"
    )


TIMED = {"p_train": 100.0, "e2e_time": 50.0, "stop_reason": "target"}


@pytest.mark.parametrize(
    ("config", "values", "left_out"),
    [
        pytest.param({}, {}, "", id="alike"),
        pytest.param({"max_steps": 5}, {}, "max_steps is none and 5.", id="another limit"),
        pytest.param({}, {"stop_reason": "max_epochs"}, "stop reason is target and max_epochs.", id="ended otherwise"),
        pytest.param({}, {"resumed_from_step": 7}, "resume is none and 7.", id="resumed"),
    ],
)
def test_times_of_trainings_that_end_otherwise(config: Any, values: Any, left_out: str) -> None:
    found = compare(job("a", values=TIMED), job("b", config=config, values={**TIMED, **values}), margin=0.01)
    assert ("e2e_time" in [figure.name for figure in found.figures]) is (left_out == "")
    assert found.left_out == (f"e2e_time is not compared: {left_out}" if left_out else "")
