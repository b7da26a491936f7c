"""What only an accelerator shows: events, streams, pinned memory, and records that settle a step later.

It is this machine's, or a chip made of Python (accelerator.py). All trainings run in one process: importing torch takes
longer than any of them.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import accelerator
import pytest
import torch
import toy

from flagperf.perflog import Event

Answers = dict[str, accelerator.Answer]
Trained = Callable[..., "list[Event]"]

PRECISIONS = list(product(("fp32", "tf32", "amp_bf16", "amp_fp16"), (1, 3, 100)))
OPTIONS: dict[str, dict[str, Any]] = {
    "held batches": {"synthetic": True},
    "average of the weights": {"ema": {"decay": 0.9, "every": 2}},
}
NEVER_WAITS: dict[str, dict[str, Any]] = {
    "loaded batches": {},
    "held batches": {"synthetic": True},
}
CAUGHT = {"Reading": "synchronizing", "Waiting": "synchronizing", "Leaving": "on the same device"}
SLOW_STEPS, SLOWNESS = [4, 11, 20], 0.3  # seconds
TWO_RANKS = {"max_epochs": 3, "gradient_accumulation_steps": 2, "clip_grad": 1.0, "num_workers": 1}
RESUMED = {"max_epochs": None, "max_steps": 20, "deterministic": True, "network": toy.node("network", dropout=0.3)}


def of_precision(precision: str, log_freq: int) -> dict[str, Any]:
    return {"max_epochs": 3, "precision": precision, "clip_grad": 1.0, "log_freq": log_freq, "num_workers": 1}


def of_option(name: str) -> dict[str, Any]:
    return {"max_epochs": 3, "num_workers": 1, **OPTIONS[name]}


def task(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"accelerator.{name}", **arguments}


def trainings(folder: Path) -> dict[str, dict[str, Any]]:
    """All trainings of this file by name."""
    slow = {"max_epochs": 3, "task": task("Slow", steps=SLOW_STEPS, seconds=SLOWNESS)}
    never_waits = {"max_epochs": 2, "eval_interval_epochs": None, "never_waits": True}
    return {
        "two ranks": {**TWO_RANKS, "ranks": 2},
        **{f"{precision} {log_freq}": of_precision(precision, log_freq) for precision, log_freq in PRECISIONS},
        **{name: of_option(name) for name in OPTIONS},
        **{f"slow steps {log_freq}": {**slow, "log_freq": log_freq} for log_freq in (1, 3)},
        "figures": {"max_epochs": 10, "checkpoint_freq": 20},
        **{f"never waits, {name}": {**never_waits, **settings} for name, settings in NEVER_WAITS.items()},
        **{name: {**never_waits, "task": task(name)} for name in CAUGHT},
        "nan": {"max_epochs": 9, "train_data": toy.node("Points", count=64, nan_at=0)},
        "whole": RESUMED,
        "first half": {**RESUMED, "max_steps": 11, "checkpoint_freq": 11},
        "resumed": {**RESUMED, "resume": str(accelerator.checkpoints(folder, "first half"))},
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """All trainings on the accelerator."""
    folder = tmp_path_factory.mktemp("accelerator")
    return accelerator.train_each(
        {name: accelerator.on_device(toy.config(**settings)) for name, settings in trainings(folder).items()}, folder
    )


@pytest.fixture(scope="module")
def trained(answers: Answers) -> Trained:
    """Gives the events of a rank of a training, which must have ended well."""

    def events(name: str, rank: int = 0) -> list[Event]:
        answer = answers[name]
        assert not isinstance(answer, str), answer
        return answer[rank]

    return events


@pytest.mark.parametrize(("precision", "log_freq"), PRECISIONS)
def test_trains_as_a_cpu_does(trained: Trained, precision: str, log_freq: int, tmp_path: Path) -> None:
    events = trained(f"{precision} {log_freq}")
    expected = toy.train(toy.config(**of_precision("fp32", log_freq)), tmp_path)
    close = 1e-4 if precision == "fp32" else 0.05
    assert toy.losses(events) == pytest.approx(toy.losses(expected), rel=close)
    assert [value["step"] for value in toy.values(events, "STEP_END")] == [
        value["step"] for value in toy.values(expected, "STEP_END")
    ]


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_the_loop(trained: Trained, name: str, tmp_path: Path) -> None:
    events, expected = trained(name), toy.train(toy.config(**of_option(name)), tmp_path)
    assert toy.losses(events) == pytest.approx(toy.losses(expected), rel=1e-4)
    assert events[-1].value["final_accuracy"] == expected[-1].value["final_accuracy"]


@pytest.mark.parametrize("log_freq", [1, 3])
def test_each_step_has_its_own_time(trained: Trained, log_freq: int) -> None:
    """Also where many steps are logged at once: fast ones are held, and written five times a second."""
    events = trained(f"slow steps {log_freq}")
    steps = toy.values(events, "STEP_END")
    numbers = [value["step"] for value in steps]
    assert numbers == sorted({1, *range(log_freq, 25, log_freq)})

    counts = [number - before for before, number in zip([0, *numbers], numbers, strict=False)]
    seconds = [value["step_time"] * count for value, count in zip(steps, counts, strict=True)]
    slow = [
        any(number - count < step <= number for step in SLOW_STEPS)
        for number, count in zip(numbers, counts, strict=True)
    ]
    assert all(time >= SLOWNESS for time, is_slow in zip(seconds, slow, strict=True) if is_slow)
    assert statistics.median(time for time, is_slow in zip(seconds, slow, strict=True) if not is_slow) < SLOWNESS

    (rank,) = events[-1].value["ranks"]
    assert sum(seconds) == pytest.approx(rank["step_time_sum"])
    units = [count * 8 * 8 for count in counts]
    assert [value["throughput"] * time for value, time in zip(steps, seconds, strict=True)] == pytest.approx(units)


def test_figures_of_the_device(trained: Trained) -> None:
    finished = trained("figures")[-1].value
    (rank,) = finished["ranks"]
    elsewhere = finished["eval_time"] + finished["checkpoint_time"]
    assert (finished["clock"], finished["peak_memory_kind"]) == ("device events", "device")
    assert finished["device_name"] == accelerator.device_name()
    assert rank["step_time_sum"] + elsewhere == pytest.approx(finished["raw_train_time"], rel=0.05)


@pytest.mark.parametrize("name", NEVER_WAITS)
def test_loop_never_waits_for_the_device(trained: Trained, name: str) -> None:
    """Nor for a stream, a number or a copy, in a training that logs each step and evaluates nothing."""
    assert len(toy.losses(trained(f"never waits, {name}"))) == 16


@pytest.mark.parametrize(("name", "error"), CAUGHT.items(), ids=CAUGHT.keys())
def test_what_a_task_does_wrong_is_caught(answers: Answers, name: str, error: str) -> None:
    """The test above would see a wait, and a tensor that is left on the host ends the training."""
    answer = answers[name]
    assert isinstance(answer, str)
    assert error in answer


def test_nan_is_seen_a_step_later(trained: Trained, tmp_path: Path) -> None:
    finished = trained("nan")[-1].value
    first = next(step for step, loss in enumerate(toy.losses(toy.train(toy.config(), tmp_path)), 1) if loss)
    assert finished["stop_reason"] == "non_finite_loss"
    assert finished["global_steps"] >= first


def test_resumed_equals_uninterrupted(trained: Trained) -> None:
    assert toy.losses(trained("resumed")) == toy.losses(trained("whole"))[11:]


def test_two_ranks(trained: Trained, tmp_path: Path) -> None:
    """Losses are summed over the ranks in fp32 on a device, in fp64 on a CPU."""
    expected = toy.fork_ranks(partial(toy.train, toy.config(**TWO_RANKS)), tmp_path)
    ranks = [trained("two ranks", rank) for rank in range(2)]
    for events, wanted in zip(ranks, expected, strict=True):
        assert toy.losses(events) == pytest.approx(toy.losses(wanted), rel=1e-4)
        assert events[-1].value["final_accuracy"] == wanted[-1].value["final_accuracy"]
    assert len({rank["parameters_checksum"] for events in ranks for rank in events[-1].value["ranks"]}) == 1


def test_the_chip_refuses_another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made of private interfaces."""
    monkeypatch.syspath_prepend(str(accelerator.CHIP / "code"))
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.15.0"))
    with pytest.raises(ImportError, match=r"^torch_acme is made for torch 2\.11 to 2\.14, this is 2\.15\.0$"):
        import torch_acme  # noqa: F401
    assert "torch_acme" not in sys.modules
