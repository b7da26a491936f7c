"""A gate passes or fails only where the whole interval says so."""

from __future__ import annotations

import pytest
from jobs_of import JOB, job

from flagperf.compare.gate import Condition, decide, parse, worst
from flagperf.compare.jobs import compare
from flagperf.errors import ConfigError


def test_conditions() -> None:
    assert parse("p_train>-3%, accuracy > -1 %,e2e_time<+5.5%") == (
        Condition("p_train", True, -3.0),
        Condition("accuracy", True, -1.0),
        Condition("e2e_time", False, 5.5),
    )
    assert str(parse("p_train>-3%")[0]) == "p_train>-3%"


@pytest.mark.parametrize("text", ["", "p_train", "p_train>-3", "p_train>=3%", "p_train>-3%,", "p_train>x%"])
def test_what_is_no_gate(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    part = text.split(",")[-1]
    assert str(caught.value) == (
        f"the gate cannot be understood\n  where:   command line\n  key:     gate\n  given:   {part}\n"
        "  allowed: FIGURE>PERCENT% or FIGURE<PERCENT%, with commas between: p_train>-3%,accuracy>-1%,e2e_time<5%"
    )


TIGHT = [99.5, 100, 100.5, 100.2, 99.8]


@pytest.mark.parametrize(
    ("gate", "speeds", "outcome", "why"),
    [
        pytest.param("p_train>-3%", [v + 0.01 for v in TIGHT], "passed", "+0.01 % (-0.69 % to +0.71 %)", id="the same"),
        pytest.param(
            "p_train>-3%", [v * 0.95 for v in TIGHT], "failed", "-5.00 % (-5.66 % to -4.33 %)", id="5 % slower"
        ),
        pytest.param(
            "p_train>-3%",
            [v * 0.97 for v in TIGHT],
            "undecided",
            "-3.00 % (-3.68 % to -2.32 %): even 100 rounds a side would not decide: they vary too much, "
            "or the change is too near to the bound",
            id="just there",
        ),
        pytest.param(
            "p_train>-3%",
            [v * 0.9675 for v in TIGHT],
            "undecided",
            "-3.25 % (-3.92 % to -2.57 %): about 37 rounds a side would decide, if they vary like these",
            id="so near that more rounds would tell",
        ),
        pytest.param(
            "p_train<5%", [v * 1.1 for v in TIGHT], "failed", "+10.00 % (+9.23 % to +10.77 %)", id="from above"
        ),
        pytest.param("p_train<5%", [v + 0.01 for v in TIGHT], "passed", "+0.01 % (-0.69 % to +0.71 %)", id="below"),
        pytest.param("accuracy>-1%", TIGHT, "passed", "no change: all rounds are equal", id="the metric of the target"),
    ],
)
def test_a_decision(gate: str, speeds: list[float], outcome: str, why: str) -> None:
    (condition,) = parse(gate)
    found = decide(condition, compare(job("a", TIGHT), job("b", speeds), margin=0.01))
    assert (found.outcome, found.why) == (outcome, why)


@pytest.mark.parametrize("speeds", [[100.0], [100.0, 120.0], [60, 90, 100, 110, 150]], ids=["one", "two", "five"])
@pytest.mark.parametrize(
    ("gate", "outcome"), [("p_train>-3%", "passed"), ("p_train<3%", "passed"), ("p_train>0%", "failed")]
)
def test_equal_rounds_are_decided_as_the_table_says(speeds: list[float], gate: str, outcome: str) -> None:
    """A job compared with itself is the same, also where its rounds vary much, or it has one."""
    comparison = compare(job("a", speeds), job("b", speeds), margin=0.01)
    found = decide(parse(gate)[0], comparison)
    assert (comparison.figures[0].word, found.outcome) == ("same", outcome)
    assert found.why == "no change: all rounds are equal"


def test_one_round_each_decides_nothing() -> None:
    found = decide(parse("p_train>-3%")[0], compare(job("a", [100]), job("b", [50]), margin=0.01))
    assert (found.outcome, found.why) == ("undecided", "-50.00 %; one round of a job gives no interval: repeat=5")


def test_a_figure_that_is_not_there() -> None:
    with pytest.raises(ConfigError) as caught:
        decide(parse("p_core>-3%")[0], compare(job("a"), job("b"), margin=0.01))
    assert str(caught.value) == (
        f"these jobs do not both have the figure of the gate\n  where:   a/{JOB} and b/{JOB}\n  key:     gate\n"
        "  given:   p_core\n  allowed: p_train, final_acc1"
    )


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["passed", "undecided", "failed"], "failed"),
        (["passed", "undecided"], "undecided"),
        (["passed"], "passed"),
        ([], "passed"),
    ],
)
def test_the_worst_counts(outcomes: list[str], expected: str) -> None:
    assert worst(outcomes) == expected  # type: ignore[arg-type]
