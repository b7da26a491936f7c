"""The same comparison as Markdown, as JUnit's XML and in a terminal."""

from __future__ import annotations

import pytest
from example_results import CONFIG
from jobs_of import JOB, job
from rich.console import Console

from flagperf.compare.gate import Decision, change, decide, interval, parse
from flagperf.compare.jobs import NamedJob, compare
from flagperf.compare.page import Compared, page
from flagperf.compare.render import junit, markdown, rows, terminal
from flagperf.compare.values import Comparison
from flagperf.results.summary import summary_of

MESH = {
    **CONFIG,
    "train_batch_size": 32,
    "gradient_accumulation_steps": 1,
    "parallel": {"mesh": {"dp_replicate": -1, "dp_shard": 1, "tp": 1}},
}
FIVE = [99.5, 100, 100.5, 100.2, 99.8]


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(job("a|1", FIVE), job("b", [v * 0.95 for v in FIVE], config={"lr": 0.2}), margin=0.01)


@pytest.fixture(scope="module")
def decisions(compared: Comparison) -> list[Decision]:
    return [decide(condition, compared) for condition in parse("p_train>-3%,accuracy>-1%,p_train>-5%")]


TOO_NEAR = ": even 100 rounds a side would not decide: they vary too much, or the change is too near to the bound"

MARKDOWN = f"""\
- **failed** `p_train>-3%`: -5.00 % (-5.66 % to -4.33 %)
- **passed** `accuracy>-1%`: no change: all rounds are equal
- **undecided** `p_train>-5%`: -5.00 % (-5.66 % to -4.33 %){TOO_NEAR}

### b/{JOB} against a\\|1/{JOB}

| figure | base | other | change | 95 % interval | effect | verdict |
|---|---:|---:|---:|---:|---:|---|
| p_train [images/s] | 100.00 ± 0.38 (n=5) | 95.00 ± 0.36 (n=5) | -5.00 % | -5.66 % to -4.33 % | -1.00 | worse |
| final_acc1 [%] | 76.00 (n=5) | 76.00 (n=5) | +0.00 % | +0.00 % to +0.00 % | +0.00 | same |

By rank (Mann-Whitney). base, other: arithmetic means over the rounds; change: other against base. same: the whole \
interval lies within 1 %, or all rounds are equal. undecided: the rounds do not tell; repeat=5 and more narrows the \
interval.

| differs | base | other |
|---|---|---|
| lr | 0.1 | 0.2 |
"""

JUNIT = f"""\
<testsuite name="flagperf compare" tests="3" failures="2">
  <testcase classname="a|1/{JOB} → b/{JOB}" name="p_train&gt;-3%">
    <failure type="failed" message="-5.00 % (-5.66 % to -4.33 %)" />
  </testcase>
  <testcase classname="a|1/{JOB} → b/{JOB}" name="accuracy&gt;-1%" />
  <testcase classname="a|1/{JOB} → b/{JOB}" name="p_train&gt;-5%">
    <failure type="undecided" message="-5.00 % (-5.66 % to -4.33 %){TOO_NEAR}" />
  </testcase>
</testsuite>
"""


def test_markdown(compared: Comparison, decisions: list[Decision]) -> None:
    assert markdown([compared], decisions, 0.01) == MARKDOWN


def test_junit(decisions: list[Decision]) -> None:
    assert junit(decisions) == JUNIT


def test_a_narrow_terminal_cuts_nothing_off(compared: Comparison) -> None:
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as shown:
        console.print(terminal(compared, 0.01))
    text = "".join(shown.get().split())
    for part in ("(n=5)", "-5.00%", "worse", "lr:0.1→0.2", JOB):
        assert part in text, part


def test_one_round_each_says_so() -> None:
    """Only how its steps vary is known, where it is."""
    steps = {"step_time_p50": 0.01, "step_time_p90": 0.0125, "step_time_p99": 0.02}
    found = compare(job("a", values={"p_train": 100.0, **steps}), job("b", [90.0]), margin=0.01)
    assert markdown([found], [], 0.01).splitlines()[-1] == (
        "One round of a job: how its rounds vary is not known, so that only equal figures are decided; repeat=5 gives "
        "five. Known is how steps vary within the round, p50 / p90 / p99 in ms: base 10 / 12.5 / 20."
    )
    found = compare(job("a"), job("b", values={"p_train": 90.0, "step_time_p50": None}), margin=0.01)
    assert markdown([found], [], 0.01).splitlines()[-1].endswith("equal figures are decided; repeat=5 gives five.")
    assert [row[-1] for row in rows(compare(job("a"), job("b"), margin=0.01))] == ["same", "same"]


def test_a_suspect_job_is_marked() -> None:
    doubtful = job("b", verdict="SUSPECT")
    found = compare(job("a"), doubtful, margin=0.01)
    assert f"### b/{JOB} (SUSPECT) against a/{JOB}\n" in markdown([found], [], 0.01)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(terminal(found, 0.01))
    assert f"a/{JOB}  →  b/{JOB} (SUSPECT)\n" in shown.get()
    html = page(Compared([(job("a"), doubtful)], [found], [], [], [], {}, 0.01))
    assert "b (SUSPECT) against a" in html


def test_numbers_have_the_digits_that_their_interval_lets_them_have() -> None:
    for spread, shown in ((40, ("+0 %", "-71 % to +243 %")), (1, ("+0.0 %", "-3.0 % to +3.1 %"))):
        speeds = [100 - spread / 2, 100 + spread / 2]
        figure, _ = compare(job("a", speeds), job("b", speeds[::-1]), margin=0.01).figures
        assert (change(figure.estimate), interval(figure.estimate)) == shown


def test_samples_to_the_target_of_the_base_are_a_reference() -> None:
    """Their speeds vary too much for a decision: there the note advises more rounds, too."""
    reached = [job("a", [98.0, 100, 103, 101, 99]), job("b", [99.0, 100, 102, 101, 97])]
    for named, samples in zip(reached, ((1000, 1010, 990, 1020, 980), (900, 910, 890, 920, 880)), strict=True):
        for result, needed in zip(named.summary.results, samples, strict=True):
            result.values.update(global_samples=needed)
    base, other = (NamedJob(named.run, summary_of(JOB, named.summary.results, MESH, ())) for named in reached)
    text = markdown([compare(base, other, margin=0.001)], [], 0.001)
    assert (
        f"""\
b/{JOB}: its 5 rounds needed 900 samples to the target, faster than expected: the reference needed 1000 with a batch \
of 512 (a/{JOB}), and MLPerf's test expects at least 975.384."""
        in text
    )
    assert "These rounds detect a change of 4 % in p_train; 5 more rounds of each job would detect 2.6 %." in text
    text = markdown([compare(base, base, margin=0.001)], [], 0.001)
    assert "needed 1000 samples to the target, as expected: " in text
    assert "A difference of 3.5 % would be detected; 5 more rounds would detect 2.6 %." in text
