"""What people see while a round runs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from example import example_job
from rich.console import Console

from flagperf.contract.outcome import Failure
from flagperf.contract.perflog import Event
from flagperf.contract.sample_data import sample_name
from flagperf.contract.target import Target
from flagperf.run.pace import TimeLeft, duration, evaluation_text, step_text
from flagperf.run.progress import REACHED, Progress, phases_text, seconds_text
from flagperf.run.times import PhaseTimes


def test_what_rank_0_built_is_objected_to_before_the_first_step() -> None:
    shown = io.StringIO()
    job, objections = example_job(), lambda built: [f"{built['parameters']} parameters"]
    with Progress(job, Console(file=shown), objections) as progress:
        progress.event(Event("BUILT", {"parameters": 7}, time_ms=0, rank=0))
    assert shown.getvalue().endswith(" s  warning this round will be INVALID: 7 parameters\n")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (62, "1:02"), (3605, "1:00:05"), (360000, "100:00:00")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_step_text() -> None:
    value = {"step": 20, "epoch": 2, "loss": 0.43215, "throughput": 1523.14}
    assert step_text(value, "images/s", 62) == "step 20  epoch 2  loss 0.4321  1523.1 images/s  at most 1:02 left"
    assert step_text({"step": 1}, "images/s", None) == "step 1"
    assert step_text({"step": 40}, "images/s", 0.0, last=40) == "step 40/40"
    assert step_text({"step": 1}, "images/s", None, last=40, metric="acc1 0.51 (target 0.6)") == (
        "step 1/40  acc1 0.51 (target 0.6)"
    )
    assert step_text({"step": 1, "loss": float("nan")}, "images/s", None) == "step 1  loss nan"


def test_evaluation_text() -> None:
    value = {"step": 20, "samples": 80, "acc1": 97.25, "loss": 0.5, "time": 1.5}
    assert evaluation_text(value, {}) == "step 20  acc1 97.25  loss 0.5"
    assert evaluation_text(value, {"acc1": 95.0}) == "step 20  acc1 97.25 (target 95)  loss 0.5"


def test_where_hosts_are() -> None:
    at = {"n1": ("init", 7.0), "n2": ("init", 8.0), "n3": ("imports", 9.0)}
    assert phases_text(at, 10.0) == "init    n1 3 s, n2 2 s; imports n3 1 s"
    assert phases_text({f"n{number}": ("init", float(number)) for number in range(9)}, 9.0) == "init    9 hosts 9 s"
    assert seconds_text({f"n{number}": float(number) for number in range(9)}) == "slowest: n8 8.0 s, n7 7.0 s, n6 6.0 s"


def step(number: int) -> Event:
    return Event("STEP_END", {"step": number})


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        pytest.param({"max_steps": None}, None, id="no limit"),
        pytest.param({"max_steps": 40}, 30.0, id="steps: 30 more, each in 1 s"),
        pytest.param({"max_steps": None, "max_samples_termination": 160}, 10.0, id="samples: 20 steps of 8"),
        pytest.param({"max_steps": None, "max_time": 15}, 4.0, id="seconds, since TRAIN_START"),
        pytest.param({"max_steps": None, "max_epochs": 10}, 40.0, id="epochs: 10 of 5 steps"),
        pytest.param({"max_steps": 40, "max_time": 15}, 4.0, id="the first limit counts"),
        pytest.param({"max_steps": 5}, 0.0, id="over"),
    ],
)
def test_time_left(limits: dict[str, Any], left: float | None) -> None:
    estimate = TimeLeft(example_job(config=limits))
    estimate.observe(Event("TRAIN_START"), 100.0)
    estimate.observe(step(5), 106.0)  # the first steps are slower
    assert estimate.seconds(106.0) == (9.0 if "max_time" in limits else None)
    estimate.observe(Event("EPOCH_END", {"epoch": 1, "step": 5}), 106.0)
    estimate.observe(step(10), 111.0)
    assert estimate.seconds(111.0) == left


@pytest.mark.parametrize(
    ("limits", "last"),
    [
        pytest.param({"max_steps": None}, None, id="no limit"),
        pytest.param({"max_steps": 40}, 40, id="steps"),
        pytest.param({"max_steps": 40, "max_samples_termination": 161}, 21, id="samples: 20 steps of 8, and one more"),
        pytest.param({"max_steps": None, "max_epochs": 10}, 50, id="epochs of 5 steps"),
        pytest.param({"max_steps": None, "max_time": 15}, None, id="seconds"),
    ],
)
def test_last_step(limits: dict[str, Any], last: int | None) -> None:
    estimate = TimeLeft(example_job(config=limits))
    estimate.observe(step(3), 106.0)  # the last that was logged of the first epoch
    estimate.observe(Event("EPOCH_END", {"epoch": 1, "step": 5}), 106.0)
    assert estimate.last_step == last


def steps(*numbers: int) -> Callable[[Progress], None]:
    return lambda progress: [progress.event(step(number)) for number in numbers] and None


def phase(name: str, **seconds: float) -> Callable[[Progress], None]:
    """A phase that ends on the hosts after so many seconds, in the order given."""

    def show(progress: Progress) -> None:
        progress.phase(name, sorted(seconds))
        for host, took in seconds.items():
            progress.ended(name, host, took)

    return show


def starts(*moments: dict[str, dict[str, float]]) -> Callable[[Progress], None]:
    """Hosts whose ranks have ended these phases of their start."""

    def show(progress: Progress) -> None:
        for moment in moments:
            times = {host: PhaseTimes() for host in moment}
            for host, seconds in moment.items():
                times[host].seconds |= seconds
            progress.starting(times)

    return show


ALL = {"launch": 0.5, "imports": 2.0, "init": 3.0}
FAILURE = Failure("exit code 1", "here", 0, 1, "training", 1, last_lines=("[red]Error[/red]",))


def fail(progress: Progress) -> None:
    progress.failure(FAILURE)


def shown(*parts: Callable[[Progress], object], terminal: bool = False) -> str:
    out = io.StringIO()
    with Progress(example_job(), Console(file=out, force_terminal=terminal, width=200)) as progress:
        for part in parts:
            part(progress)
    return out.getvalue()


EIGHT = {f"n{number}": 0.5 for number in range(1, 9)}


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        pytest.param(phase("image", n1=9.0), ["image   n1"], id="one host"),
        pytest.param(phase("check", n1=0.1, n2=0.9), ["check   n1, n2"], id="all are quick"),
        pytest.param(
            phase("image", n2=3.04, n1=44.0), ["image   n1, n2", "        n2: 3.0 s", "        n1: 44.0 s"], id="slow"
        ),
        pytest.param(
            phase("image", **EIGHT | {"n8": 2.0}),
            ["image   n1, n2, n3, n4, n5, n6, n7, n8", "        n8: 2.0 s"],
            id="one is slow",
        ),
        pytest.param(
            phase("image", **EIGHT, n9=2.0, n10=1.5),
            ["image   10 hosts", "        slowest: n9 2.0 s, n10 1.5 s, n1 0.5 s"],
            id="many hosts",
        ),
        pytest.param(phase("check", **EIGHT, n9=0.9), ["check   9 hosts"], id="many quick hosts"),
        pytest.param(
            starts({"n1": {}, "n2": {}}, {"n1": {"launch": 0.5}, "n2": {}}),
            [],
            id="start: hosts are in its first phase",
        ),
        pytest.param(
            starts({"n1": {"launch": 0.5}, "n2": {"launch": 0.6, "imports": 2.0}}, {"n1": ALL, "n2": ALL}),
            ["launch  n1 0.5 s, n2 0.6 s", "imports n1 2.0 s, n2 2.0 s", "init    n1 3.0 s, n2 3.0 s"],
            id="start: a line when all hosts have ended a phase",
        ),
        pytest.param(steps(1), ["train   step 1/20"], id="one step"),
        pytest.param(steps(1, 2, 3), ["train   step 1/20", "train   step 3/20"], id="steps: the last one is shown"),
        pytest.param(
            lambda progress: (steps(1, 2)(progress), progress.event(Event("TRAIN_END")), fail(progress)),
            [
                "train   step 1/20",
                "train   step 2/20",
                "failed  rank 1 on here (node rank 0): exit code 1, during training",
            ],
            id="the last step is shown once",
        ),
        pytest.param(
            lambda progress: progress.event(Event("EVALUATE", {"step": 3, "acc1": 0.5})),
            ["evaluate step 3  acc1 0.5"],
            id="evaluation",
        ),
    ],
)
def test_plain_lines_are_few(part: Callable[[Progress], object], lines: list[str]) -> None:
    assert [line.split(" s  ", 1)[1] for line in shown(part).splitlines() if not line.startswith("    [")] == lines


SAMPLE: dict[str, Any] = {"_target_": "a.Writer"}
ON_SAMPLES = {
    "size": "full",
    "stop_on_sample_data": True,
    "data": {"sample": SAMPLE},
    "data_dir": f"/samples/{sample_name('sums', SAMPLE)}",
}


@pytest.mark.parametrize(
    ("changed", "is_shown"),
    [
        pytest.param({}, True, id="a case of one's own, full by name"),
        pytest.param({"data_dir": "/data"}, False, id="real data"),
        pytest.param({"stop_on_sample_data": False}, False, id="asked to go on"),
        pytest.param({"size": "tiny"}, False, id="a tiny size, which claims its target"),
    ],
)
def test_the_target_on_sample_data_is_told_when_it_is_reached(changed: dict[str, Any], is_shown: bool) -> None:
    job, out = example_job(config={**ON_SAMPLES, **changed}, target=Target("acc1", 0.5, "higher")), io.StringIO()
    with Progress(job, Console(file=out, width=200)) as progress:
        for step in (2, 3):
            progress.event(Event("EVALUATE", {"step": step, "acc1": step / 5}))
    lines = [line.split(" s  ", 1)[1] for line in out.getvalue().splitlines()]
    evaluations = [f"evaluate step {step}  acc1 {step / 5} (target 0.5)" for step in (2, 3)]
    assert lines == [*evaluations, *([f"{'':9}{REACHED}"] if is_shown else [])]


def test_last_lines_of_a_log_are_no_markup() -> None:
    assert shown(fail).splitlines()[-1] == "    [red]Error[/red]"


def test_a_terminal_renews_one_line_and_keeps_the_last(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "flagperf")
    text = shown(phase("image", n1=0.5, n2=9.0), steps(1, 2, 3), terminal=True)
    assert re.search(r"image   n2 \d+ s", text)
    kept = [line for line in plain(text) if re.match(r" +\d", line)]  # a renewed line begins with a turning sign
    assert [line.split(" s  ", 1)[1] for line in kept] == [
        "image   n1, n2",
        "        n2: 9.0 s",
        "train   step 3/20",
    ]
    assert [message for message in caplog.messages if "train" in message] == ["train   step 1/20", "train   step 3/20"]


def plain(text: str) -> list[str]:
    """Lines without the codes that move a terminal's cursor or colour it."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r", "")).splitlines()
