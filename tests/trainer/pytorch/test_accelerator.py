"""What only an accelerator shows: events, streams, pinned memory, and records that settle a step later.

It is this machine's, or a chip made of Python (accelerator.py). All trainings run in two processes side by side, one
for the accelerator and one for the CPU: importing torch takes longer than any of them.
"""

from __future__ import annotations

import math
import operator
import statistics
import sys
from collections.abc import Callable
from itertools import compress
from pathlib import Path
from typing import Any

import accelerator
import pytest
import torch
import toy

from flagperf.contract.perflog import Event

Answers = dict[str, accelerator.Answer]
Trained = Callable[..., list[Event]]
Settings = dict[str, Any]

LOG_FREQS = (1, 3, 100)
PRECISIONS = {"fp32": LOG_FREQS, "tf32": (3,), "amp_bf16": (1,), "amp_fp16": (1, 3)}  # → how often each is logged
OPTIONS: dict[str, Settings] = {
    "held batches": {"synthetic": True},
    "average of the weights": {"ema": {"decay": 0.9, "every": 2}},
    "accumulated gradients": {"gradient_accumulation_steps": 2},
    "activations computed again": {"activation_checkpointing": True, "checkpoint_modules": "torch.nn.Linear"},
}
TWO_RANKS: Settings = {
    "ranks": 2,
    "max_epochs": 3,
    "gradient_accumulation_steps": 2,
    "clip_grad": 1.0,
    "num_workers": 1,
}
NEVER_WAITS: dict[str, Settings] = {"loaded batches": {}, "held batches": {"synthetic": True}}
MISTAKES = {"Reading": "synchronizing", "Waiting": "synchronizing", "Leaving": "on the same device"}
OLDER = ("two ranks", "fp32 3", "amp_bf16 1", "amp_fp16 1", "figures", "nan 1", "whole", "first half", "resumed")
NAN: Settings = {"max_epochs": 9, "train_data": toy.node("Points", count=64, nan_at=20)}  # in the second step
SLOW_STEPS, SLOWNESS = [4, 11, 20], 0.3  # seconds


def of_precision(precision: str) -> dict[str, Settings]:
    common = {"max_epochs": 3, "precision": precision, "clip_grad": 1.0, "num_workers": 1}
    return {f"{precision} {log_freq}": {**common, "log_freq": log_freq} for log_freq in PRECISIONS[precision]}


def compared() -> dict[str, Settings]:
    """Trainings on accelerator and CPU, by name."""
    options = {name: {"max_epochs": 3, "num_workers": 1, **settings} for name, settings in OPTIONS.items()}
    return {"two ranks": TWO_RANKS, **of_precision("fp32"), **options}


def on_accelerator(folder: Path) -> dict[str, Settings]:
    """Trainings on the accelerator alone, by name."""
    resumed = {"max_epochs": None, "max_steps": 20, "deterministic": True, "network": toy.node("network", dropout=0.3)}
    slow = {"max_epochs": 3, "task": task("Slow", steps=SLOW_STEPS, seconds=SLOWNESS)}
    never_waits = {"max_epochs": 2, "eval_interval_epochs": None, "never_waits": True}
    return {
        **{name: settings for precision in list(PRECISIONS)[1:] for name, settings in of_precision(precision).items()},
        **{f"slow steps {log_freq}": {**slow, "log_freq": log_freq} for log_freq in (1, 3)},
        "figures": {"max_epochs": 8, "checkpoint_freq": 20},
        **{f"never waits, {name}": {**never_waits, **settings} for name, settings in NEVER_WAITS.items()},
        **{name: {**never_waits, "task": task(name)} for name in MISTAKES},
        **{f"nan {log_freq}": {**NAN, "log_freq": log_freq} for log_freq in LOG_FREQS[:2]},
        "whole": resumed,
        "first half": {**resumed, "max_steps": 11, "checkpoint_freq": 11},
        "resumed": {**resumed, "resume": str(accelerator.checkpoints(folder, "first half"))},
    }


def task(name: str, **arguments: Any) -> Settings:
    return {"_target_": f"accelerator.{name}", **arguments}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """All trainings, by the process that trained them."""
    folder = tmp_path_factory.mktemp("trained")
    both = {name: toy.config(**settings) for name, settings in compared().items()}
    alone = {name: toy.config(**settings) for name, settings in on_accelerator(folder / "accelerator").items()}
    devices = {name: accelerator.on_device(config) for name, config in {**both, **alone}.items()}
    return accelerator.train_side_by_side({"cpu": both, "accelerator": devices}, folder)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Some of these trainings, as on torch 2.2."""
    folder = tmp_path_factory.mktemp("older")
    settings = {**compared(), **on_accelerator(folder)}
    trainings = {name: accelerator.on_device(toy.config(**settings[name])) for name in OLDER}
    return accelerator.train_each(trainings, folder, version="2.2")


@pytest.fixture(scope="module")
def trained(answers: dict[str, Answers]) -> Trained:
    """Gives the events of a training on the accelerator, which must have ended well."""
    return lambda name, rank=0: accelerator.events_of(answers["accelerator"][name], rank)


@pytest.fixture(scope="module")
def expected(answers: dict[str, Answers]) -> Trained:
    """Gives the events of a training on the CPU."""
    return lambda name, rank=0: accelerator.events_of(answers["cpu"][name], rank)


@pytest.mark.parametrize(
    ("precision", "log_freq"), [(precision, log_freq) for precision, freqs in PRECISIONS.items() for log_freq in freqs]
)
def test_trains_as_a_cpu_does(trained: Trained, expected: Trained, precision: str, log_freq: int) -> None:
    events, wanted = trained(f"{precision} {log_freq}"), expected(f"fp32 {log_freq}")
    close = 1e-4 if precision == "fp32" else 0.05
    assert toy.losses(events) == pytest.approx(toy.losses(wanted), rel=close)
    assert [value["step"] for value in toy.values(events, "STEP_END")] == [
        value["step"] for value in toy.values(wanted, "STEP_END")
    ]


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_the_loop(trained: Trained, expected: Trained, name: str) -> None:
    events, wanted = trained(name), expected(name)
    assert toy.losses(events) == pytest.approx(toy.losses(wanted), rel=1e-4)
    assert events[-1].value["final_accuracy"] == wanted[-1].value["final_accuracy"]


@pytest.mark.parametrize("log_freq", [1, 3])
def test_each_step_has_its_own_time(trained: Trained, log_freq: int) -> None:
    """Also where many steps are logged at once: fast ones are held, and written five times a second."""
    events = trained(f"slow steps {log_freq}")
    steps, evaluated = toy.values(events, "STEP_END"), {value["step"] for value in toy.values(events, "EVALUATE")}
    numbers = [value["step"] for value in steps]
    assert numbers == sorted({1, *range(log_freq, 25, log_freq), *evaluated})

    covered = [range(before + 1, number + 1) for before, number in zip([0, *numbers], numbers, strict=False)]
    seconds = [value["step_time"] * len(those) for value, those in zip(steps, covered, strict=True)]
    slow = [not set(SLOW_STEPS).isdisjoint(those) for those in covered]
    assert min(compress(seconds, slow)) > SLOWNESS / 2
    assert statistics.median(compress(seconds, map(operator.not_, slow))) < SLOWNESS / 2

    units = [value["throughput"] * time for value, time in zip(steps, seconds, strict=True)]
    assert units == pytest.approx([len(those) * 8 * 8 for those in covered])
    finished = events[-1].value
    assert sum(seconds) == pytest.approx(finished["ranks"][0]["step_time_sum"])
    assert sum(seconds) + finished["eval_time"] == pytest.approx(finished["raw_train_time"], rel=0.05)


def test_figures_of_the_device(trained: Trained) -> None:
    finished = trained("figures")[-1].value
    (rank,) = finished["ranks"]
    elsewhere = finished["eval_time"] + finished["checkpoint_time"]
    assert (finished["clock"], finished["peak_memory_kind"]) == ("device events", "device")
    assert finished["peak_memory"] < 512  # the chip was full before the network was divided
    assert finished["device_name"] == accelerator.device_name()
    assert rank["step_time_sum"] + elsewhere == pytest.approx(finished["raw_train_time"], rel=0.05)


@pytest.mark.parametrize("name", NEVER_WAITS)
def test_loop_never_waits_for_the_device(trained: Trained, name: str) -> None:
    """Nor for a stream, a number or a copy, in a training that logs each step and evaluates nothing."""
    assert len(toy.losses(trained(f"never waits, {name}"))) == 16


@pytest.mark.parametrize(("name", "error"), MISTAKES.items(), ids=MISTAKES.keys())
def test_what_a_task_does_wrong_is_caught(answers: dict[str, Answers], name: str, error: str) -> None:
    """The test above would see a wait, and a tensor that is left on the host ends the training."""
    answer = answers["accelerator"][name]
    assert isinstance(answer, str)
    assert error in answer


@pytest.mark.parametrize("log_freq", LOG_FREQS[:2])
def test_nan_is_seen_a_step_later(trained: Trained, log_freq: int) -> None:
    """The device has that step to compute while the host reads the loss."""
    events = trained(f"nan {log_freq}")
    steps = {value["step"]: float(value["loss"]) for value in toy.values(events, "STEP_END")}
    seen = next(step for step, loss in steps.items() if math.isnan(loss))
    assert seen > min(steps)
    finished = events[-1].value
    assert (finished["stop_reason"], finished["global_steps"]) == ("non_finite_loss", seen + 1)
    assert max(steps) == seen + 1


def test_resumed_equals_uninterrupted(trained: Trained) -> None:
    assert toy.losses(trained("resumed")) == toy.losses(trained("whole"))[11:]


def test_two_ranks(trained: Trained, expected: Trained) -> None:
    """Losses are summed over the ranks in fp32 on a device, in fp64 on a CPU."""
    ranks = [trained("two ranks", rank) for rank in range(2)]
    for rank, events in enumerate(ranks):
        wanted = expected("two ranks", rank)
        assert toy.losses(events) == pytest.approx(toy.losses(wanted), rel=1e-4)
        assert events[-1].value["final_accuracy"] == wanted[-1].value["final_accuracy"]
    assert len({rank["parameters_checksum"] for events in ranks for rank in events[-1].value["ranks"]}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
def test_by_the_module_of_the_device_alone(older: Answers, trained: Trained, name: str) -> None:
    """As with torch 2.0 to 2.5, which has no torch.accelerator: the trainer asks torch.<device>."""
    found, expected = accelerator.events_of(older[name]), trained(name)
    assert repr(toy.losses(found)) == repr(toy.losses(expected))  # also where they are not a number
    same = ("stop_reason", "clock", "peak_memory_kind", "device_name", "final_accuracy")
    assert {key: found[-1].value[key] for key in same} == {key: expected[-1].value[key] for key in same}


def test_the_chip_refuses_another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made of private interfaces."""
    monkeypatch.syspath_prepend(str(accelerator.CHIP / "code"))
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.15.0"))
    with pytest.raises(ImportError, match=r"^torch_acme is made for torch 2\.0 and 2\.11 to 2\.14, this is 2\.15\.0$"):
        import torch_acme  # noqa: F401
    assert "torch_acme" not in sys.modules
