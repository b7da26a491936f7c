"""The loop on one rank, against the same training written plainly."""

from __future__ import annotations

import itertools
import math
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
import toy
from torch import Tensor, nn
from torch.nn import functional

from flagperf.contract.perflog import Event
from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError
from flagperf.trainer.loop import training
from flagperf.trainer.loop.finish import mfu
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.fingerprint import example_operations
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.ranks import World


def gradient_descent(
    steps: int, *, momentum: float = 0.0, clip: float = math.inf, rates: tuple[float, ...] = ()
) -> tuple[list[float], list[float]]:
    """Full-batch training on all 64 points, by hand: loss and gradient norm of each step."""
    torch.manual_seed(0)
    network, points = toy.network(), toy.Points(64)
    parameters = list(network.parameters())
    velocity = [torch.zeros_like(parameter) for parameter in parameters]
    losses, norms = [], []
    for step in range(steps):
        loss = functional.cross_entropy(network(points.inputs), points.labels)
        gradients = torch.autograd.grad(loss, parameters)
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        scale = min(1.0, clip / norm)
        with torch.no_grad():
            for parameter, gradient, speed in zip(parameters, gradients, velocity, strict=True):
                speed.mul_(momentum).add_(gradient * scale)
                parameter.sub_((rates[step] if rates else 0.1) * speed)
        losses.append(loss.item())
        norms.append(norm)
    return losses, norms


# Settings under which every step sees all 64 points, so that their order does not matter.
WHOLE = {
    "one batch": {"train_batch_size": 64},
    "four micro steps": {"train_batch_size": 16, "gradient_accumulation_steps": 4},
    "64 micro steps": {"train_batch_size": 1, "gradient_accumulation_steps": 64},
}


@pytest.mark.parametrize("settings", WHOLE.values(), ids=WHOLE.keys())
def test_accumulation_clipping_and_schedule(settings: dict[str, Any], tmp_path: Path) -> None:
    optimizer = {"_target_": "torch.optim.SGD", "lr": 0.5, "momentum": 0.9}
    schedule = {"_target_": "torch.optim.lr_scheduler.StepLR", "step_size": 2, "gamma": 0.1}
    settings = {"max_steps": 6, "max_epochs": None, "clip_grad": 0.2, **settings}
    events = toy.train(toy.config(optimizer=optimizer, lr_scheduler=schedule, **settings), tmp_path)
    rates = (0.5, 0.5, 0.05, 0.05, 0.005, 0.005)
    losses, norms = gradient_descent(6, momentum=0.9, clip=0.2, rates=rates)
    steps = toy.values(events, "STEP_END")
    assert [step["learning_rate"] for step in steps] == pytest.approx(rates)
    assert [step["loss"] for step in steps] == pytest.approx(losses, rel=1e-5)
    assert [step["grad_norm"] for step in steps] == pytest.approx(norms, rel=1e-4)
    assert max(norms) > 0.2 > 0  # something was clipped
    finished = events[-1].value
    assert finished["num_trained_samples"] == 6 * 64
    assert finished["num_trained_units"] == 6 * 64 * 8


REACHED = {"metric": "accuracy", "value": 0.0, "direction": "higher", "unit": ""}
ENDS = {
    "a limit, with an evaluation": ({"max_steps": 3, "max_epochs": None, "eval_interval_steps": 3}, [0, 0, 1]),
    "the last epoch": ({"max_epochs": 1, "train_batch_size": 32}, [0, 1]),
    "a step that log_freq leaves out": ({"max_steps": 3, "max_epochs": None, "log_freq": 2}, [0, 0, 1]),
    "the target, which the evaluation finds later": (
        {"max_epochs": 5, "target": REACHED},
        [0],
    ),
    "the target, in an epoch whose last step log_freq leaves out": (
        {"max_epochs": 5, "train_batch_size": 16, "log_freq": 100, "target": REACHED},
        [0, 1],
    ),
    "a limit in the middle of an epoch": (
        {"max_epochs": 5, "max_steps": 6, "train_batch_size": 16, "log_freq": 100},
        [0, 0, 1],
    ),
}


@pytest.mark.parametrize(("settings", "ends"), ENDS.values(), ids=ENDS.keys())
def test_the_fields_that_flagperfs_readers_look_for(settings: dict[str, Any], ends: list[int], tmp_path: Path) -> None:
    config = toy.config(throughput_unit="images/s", **{"train_batch_size": 64, **settings})
    events = toy.train(config, tmp_path)
    steps = toy.values(events, "STEP_END")
    for before, evaluated in itertools.pairwise(events):  # as in FlagPerf: a step, its evaluation, the end of the epoch
        if evaluated.event == "EVALUATE":
            assert (before.event, before.value["step"]) == ("STEP_END", evaluated.value["step"])
            assert before.value["step"] == 1 or before.value["eval_accuracy"] == evaluated.value["accuracy"]
    last = [event.event for event in events if event.event not in ("STEP_BEGIN", "EVALUATE")]
    assert last[-4:] == ["STEP_END", "EPOCH_END", "TRAIN_END", "FINISHED"]
    assert [step["end_training"] for step in steps] == list(map(bool, ends))
    for step in steps:
        expected = {"global_steps": step["step"], "img/s": step["throughput"]}
        expected["num_trained_samples"] = step["step"] * config["train_batch_size"]
        assert {name: step[name] for name in expected} == expected
        assert {"seq/s", "tokens/s"}.isdisjoint(step)


def test_schedule_by_epoch(tmp_path: Path) -> None:
    schedule = {"_target_": "torch.optim.lr_scheduler.StepLR", "step_size": 1, "gamma": 0.5}
    settings = {"lr_interval": "epoch", "max_epochs": 3, "train_batch_size": 32}
    events = toy.train(toy.config(lr_scheduler=schedule, **settings), tmp_path)
    rates = [step["learning_rate"] for step in toy.values(events, "STEP_END")]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.025])


def test_parameter_groups_of_the_task(tmp_path: Path) -> None:
    """What the task says is what the optimizer gets: here, biases that do not learn."""
    task = {"_target_": "test_loop.FrozenBiases"}
    toy.train(toy.config(task=task), tmp_path)
    start = toy.network()
    torch.manual_seed(0)
    start = toy.network()
    trained = FrozenBiases.seen
    for name, parameter in start.named_parameters():
        same = torch.equal(parameter, trained.get_parameter(name))
        assert same == name.endswith("bias"), name


class FrozenBiases(toy.Classification):
    """Keeps the network for the test to look at."""

    seen: nn.Module

    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        FrozenBiases.seen = network
        named = dict(network.named_parameters())
        biases = [parameter for name, parameter in named.items() if name.endswith("bias")]
        weights = [parameter for name, parameter in named.items() if not name.endswith("bias")]
        return [{"params": weights}, {"params": biases, "lr": 0.0}]


# ---------------------------------------------------------------- events and stopping


def story(events: list[Event]) -> list[str]:
    """The events by name, STEP events with their step."""
    return [f"{event.event} {event.value['step']}" if "STEP" in event.event else event.event for event in events]


def test_events_in_order(tmp_path: Path) -> None:
    settings = {"max_epochs": 2, "log_freq": 3, "train_batch_size": 16, "initial_evaluation": True}
    events = toy.train(toy.config(**settings), tmp_path)
    assert story(events) == [
        "INIT_EVALUATION",
        "INIT_END",
        "TRAIN_START",
        "EPOCH_BEGIN",
        *("STEP_BEGIN 1", "STEP_END 1", "STEP_BEGIN 3", "STEP_END 3", "STEP_BEGIN 4", "STEP_END 4"),
        "EVALUATE",
        "EPOCH_END",
        "EPOCH_BEGIN",
        *("STEP_BEGIN 6", "STEP_END 6", "STEP_BEGIN 8", "STEP_END 8"),
        "EVALUATE",
        "EPOCH_END",
        "TRAIN_END",
        "FINISHED",
    ]
    assert [value["epoch"] for value in toy.values(events, "EPOCH_BEGIN")] == [1, 2]
    assert toy.values(events, "EPOCH_END") == [{"epoch": 1, "step": 4}, {"epoch": 2, "step": 8}]
    assert [value["epoch"] for value in toy.values(events, "STEP_END")] == [1, 1, 1, 2, 2]
    assert [(value["step"], value["samples"]) for value in toy.values(events, "EVALUATE")] == [(4, 64), (8, 128)]
    assert all(event.file.endswith(("training.py", "records.py", "toy.py")) for event in events)
    finished = events[-1].value
    assert events[0].value["time"] < finished["init_time"] < finished["e2e_time"] - finished["raw_train_time"]


STOPS = {
    "max_steps": ({"max_steps": 5}, "max_steps", 5, 0),
    "max_steps at the end of an epoch": ({"max_steps": 8}, "max_steps", 8, 1),
    "max_epochs": ({"max_epochs": 3}, "max_epochs", 24, 3),
    "max_samples_termination": ({"max_samples_termination": 100}, "max_samples_termination", 13, 1),
    "max_time": ({"max_time": 1e-9}, "max_time", 1, 0),
    "the first of several": ({"max_steps": 9, "max_epochs": 1, "max_time": 999}, "max_epochs", 8, 1),
    "target": ({"target": {"metric": "count", "value": 19, "direction": "higher"}, "max_epochs": 9}, "target", 8, 1),
    "target, lower": (
        {"target": {"metric": "count", "value": 20, "direction": "lower"}, "eval_interval_steps": 3, "max_steps": 9},
        "target",
        3,
        0,
    ),
    "target in the last step": (
        {"target": {"metric": "count", "value": 19, "direction": "higher"}, "max_epochs": 1},
        "target",
        8,
        1,
    ),
    "target at the end, after the last step": (
        {
            "target": {"metric": "count", "value": 19, "direction": "higher"},
            "eval_interval_steps": 3,
            "eval_start_samples": 60,
            "max_steps": 8,
        },
        "target",
        8,
        1,
    ),
    "target of two metrics": (
        {"target": {"metric": "count", "value": 19, "direction": "higher", "also": {"accuracy": 0}}, "max_epochs": 9},
        "target",
        8,
        1,
    ),
    "target of two metrics, one missed": (
        {"target": {"metric": "count", "value": 19, "direction": "higher", "also": {"accuracy": 2}}, "max_epochs": 1},
        "max_epochs",
        8,
        1,
    ),
    "target missed": (
        {"target": {"metric": "count", "value": 20, "direction": "higher"}, "max_epochs": 1},
        "max_epochs",
        8,
        1,
    ),
}


@pytest.mark.parametrize(("settings", "reason", "steps", "epochs"), STOPS.values(), ids=STOPS.keys())
def test_stops(settings: dict[str, Any], reason: str, steps: int, epochs: int, tmp_path: Path) -> None:
    finished = toy.train(toy.config(**{"max_epochs": None, "log_freq": 4, **settings}), tmp_path)[-1].value
    assert (finished["stop_reason"], finished["global_steps"], finished["epochs"]) == (reason, steps, epochs)
    assert finished["global_samples"] == finished["num_trained_samples"] == steps * 8
    assert finished["converged"] == (reason == "target")


def test_time_limit_is_kept(tmp_path: Path) -> None:
    finished = toy.train(toy.config(max_time=0.5, max_epochs=None, eval_interval_epochs=None), tmp_path)[-1].value
    assert finished["stop_reason"] == "max_time"
    assert finished["raw_train_time"] >= 0.5


EVALUATIONS = {
    "every epoch": ({}, [8, 16, 24]),
    "every second epoch, and at the end": ({"eval_interval_epochs": 2}, [16, 24]),
    "by steps": ({"eval_interval_steps": 5}, [5, 10, 15, 20, 24]),
    "by micro steps": ({"eval_interval_micro_steps": 7}, [7, 14, 21, 24]),
    "by samples": ({"eval_interval_samples": 60}, [8, 15, 23, 24]),
    "steps before samples and epochs": ({"eval_interval_steps": 20, "eval_interval_samples": 8}, [20, 24]),
    "micro steps before samples": ({"eval_interval_micro_steps": 20, "eval_interval_samples": 8}, [20, 24]),
    "not before": ({"eval_interval_steps": 5, "eval_start_samples": 81}, [15, 20, 24]),
    "never": ({"eval_interval_epochs": None}, []),
    "ended by max_steps": ({"eval_interval_steps": 5, "max_steps": 7}, [5, 7]),
    "ended by samples": ({"eval_interval_samples": 80, "max_samples_termination": 100}, [10, 13]),
    "ended within the second epoch": ({"max_steps": 12}, [8, 12]),
    "shorter than an interval": ({"max_steps": 7}, []),
    "shorter, but begun with one": ({"max_steps": 7, "initial_evaluation": True}, [7]),
    "ended before the first": ({"eval_interval_steps": 3, "eval_start_samples": 64, "max_steps": 7}, []),
}


@pytest.mark.parametrize(("settings", "steps"), EVALUATIONS.values(), ids=EVALUATIONS.keys())
def test_evaluates(settings: dict[str, Any], steps: list[int], tmp_path: Path) -> None:
    events = toy.train(toy.config(**{"max_epochs": 3, "log_freq": 100, **settings}), tmp_path)
    assert [value["step"] for value in toy.values(events, "EVALUATE")] == steps
    assert all(value["count"] == 19 for value in toy.values(events, "EVALUATE"))
    finished = events[-1].value
    assert finished["eval_time"] == pytest.approx(sum(value["time"] for value in toy.values(events, "EVALUATE")))
    assert finished.get("final_count") == (19 if steps else None)
    assert (finished["final_accuracy"] is not None) == bool(steps)


def test_nan_loss_stops_at_the_next_logged_step(tmp_path: Path) -> None:
    batches = iter(TrainBatches(toy.Points(64), 8, 1, World(), seed=0))
    order = [indices for _, indices in itertools.islice(batches, 8)]
    data = toy.node("Points", count=64, nan_at=order[5][0])  # of the sixth step; steps 4 and 8 are logged
    events = toy.train(toy.config(train_data=data, max_epochs=5, log_freq=4, eval_interval_steps=4), tmp_path)
    finished = events[-1].value
    assert finished["stop_reason"] == "non_finite_loss"
    assert finished["converged"] is False
    assert finished["global_steps"] == 8
    assert math.isnan(finished["final_loss"])
    assert [value["step"] for value in toy.values(events, "EVALUATE")] == [4]


def test_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "HEARTBEAT", 0.0)
    monkeypatch.setattr(training, "MAX_WAIT", 0.0)
    events = toy.train(toy.config(log_freq=100), tmp_path)
    beats = toy.values(events, "HEARTBEAT")
    assert {"phase": "train", "step": 5} in beats
    assert [beat for beat in beats if beat["phase"] == "evaluate"] == [{"phase": "evaluate", "step": 8}] * 3


def test_slow_steps_are_written_at_once(tmp_path: Path) -> None:
    """A record waits 0.2 s at most, or until the end of its step."""
    data = {"_target_": "test_loop.SlowPoints", "count": 24, "folder": str(tmp_path)}
    toy.train(toy.config(train_data=data, max_epochs=1), tmp_path)
    assert SlowPoints.logged[:8] == [[]] * 8
    assert SlowPoints.logged[8:16] == [["STEP_BEGIN 1", "STEP_END 1"]] * 8
    assert SlowPoints.logged[16:24] == [["STEP_BEGIN 1", "STEP_END 1", "STEP_BEGIN 2", "STEP_END 2"]] * 8


class SlowPoints(toy.Points):
    """Takes 0.03 s a point, and keeps which steps had been logged when it was asked for."""

    logged: list[list[str]]

    def __init__(self, count: int, folder: str) -> None:
        super().__init__(count)
        self.path = Path(folder, "log0")
        SlowPoints.logged = []

    def __getitem__(self, index: int) -> toy.Batch:
        time.sleep(0.03)
        SlowPoints.logged.append([line for line in story(toy.read_log(self.path)) if "STEP" in line])
        return super().__getitem__(index)


# ---------------------------------------------------------------- precision and other ways to compute


@pytest.mark.parametrize(("precision", "close"), [("tf32", 1e-6), ("amp_bf16", 0.05), ("amp_fp16", 0.02)])
def test_precision(precision: str, close: float, tmp_path: Path) -> None:
    settings = {"clip_grad": 1.0, "gradient_accumulation_steps": 2, "max_epochs": 3}
    expected = toy.train(toy.config(**settings), tmp_path)
    events = toy.train(toy.config(precision=precision, **settings), tmp_path)
    assert toy.losses(events) == pytest.approx(toy.losses(expected), rel=close)
    norms = [[step["grad_norm"] for step in toy.values(run, "STEP_END")] for run in (events, expected)]
    assert norms[0] == pytest.approx(norms[1], rel=10 * close)  # of the gradients themselves, without the loss scale
    scales = {step.get("loss_scale") for step in toy.values(events, "STEP_END")}
    assert scales == ({65536.0} if precision == "amp_fp16" else {None})
    assert events[-1].value["precision"] == precision


def test_autocast_reaches_the_network(tmp_path: Path) -> None:
    toy.train(toy.config(task={"_target_": "test_loop.Types"}, precision="amp_bf16"), tmp_path)
    assert Types.seen == {"training": torch.bfloat16, "evaluation": torch.bfloat16}


class Types(toy.Classification):
    """Keeps the type of the network's output."""

    seen: ClassVar[dict[str, torch.dtype]] = {}

    def loss(self, network: nn.Module, batch: toy.Batch) -> Tensor:
        Types.seen["training"] = network(batch[0]).dtype
        return super().loss(network, batch)

    def evaluate(self, network: nn.Module, batches: Any, device: torch.device) -> dict[str, float]:
        Types.seen["evaluation"] = network(next(batches)[0].to(device)).dtype
        return {}


def test_activation_checkpointing_changes_nothing_but_memory(tmp_path: Path) -> None:
    settings = {"network": toy.node("network", dropout=0.5), "max_epochs": 2}
    plain = toy.train(toy.config(**settings), tmp_path)
    settings |= {"activation_checkpointing": True, "checkpoint_modules": "torch.nn.Linear"}
    recomputed = toy.train(toy.config(**settings), tmp_path)
    assert toy.losses(recomputed) == toy.losses(plain)
    assert recomputed[-1].value["mfu"] / recomputed[-1].value["steady_throughput"] == pytest.approx(
        4 / 3 * plain[-1].value["mfu"] / plain[-1].value["steady_throughput"]
    )
    assert (plain[-1].value["hfu"], recomputed[-1].value["hfu"]) == (None, recomputed[-1].value["mfu"])


def test_each_formula_has_its_mfu() -> None:
    """FlagPerf's result of llama3 8B on H100: its MFU depends on the definition."""
    config = toy.config(hardware={"name": "X1", "peak_flops": {"bf16": 989.5e12}}, precision="amp_bf16")
    engine: Any = SimpleNamespace(config=config, settings=Settings.read(config), device_name="X1", world=World())
    formulas = {
        "formula_flops": 57_914_449_920,
        "formula_flops_causal": 51_472_785_408,
        "formula_flops_6n": 48_181_567_488,
    }
    figures = mfu(engine, formulas, {"note": "not counted"}, 8103.0)
    shown = {name: f"{figures[name]:.3f}" for name in ("mfu_6n", "mfu_causal", "mfu_formula")}
    assert shown == {"mfu_6n": "0.395", "mfu_causal": "0.422", "mfu_formula": "0.474"}


@pytest.mark.slow
def test_compiled(tmp_path: Path) -> None:
    plain = toy.train(toy.config(max_epochs=3), tmp_path)
    (compiled,) = toy.fork_ranks(partial(toy.train, toy.config(max_epochs=3, compile=True)), tmp_path, ranks=1)
    assert toy.losses(compiled) == pytest.approx(toy.losses(plain), rel=1e-5)
    assert toy.values(compiled, "EVALUATE")[-1]["inputs"] == toy.values(plain, "EVALUATE")[-1]["inputs"]


def train_plain_and_compiled(folder: Path) -> list[list[Event]]:
    """The same training without and with compiled layers; their code is captured, but no compiler is waited for."""
    torch.compile = partial(torch.compile, backend="eager")  # type: ignore[assignment]
    settings = {"task": {"_target_": "test_loop.Counted"}, "ema": {"decay": 0.8, "every": 1}, "train_batch_size": 32}
    plain, compiled = toy.config(**settings), toy.config(**settings, compile=True, compile_modules="torch.nn.Linear")
    return [toy.train(config, folder) for config in (plain, compiled)]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch's compiler looks at it
def test_compiled_modules_are_counted_and_averaged_like_others(tmp_path: Path) -> None:
    """A copy of the network computes with its own weights, where the layers of the first are compiled."""
    ((plain, compiled),) = toy.fork_ranks(train_plain_and_compiled, tmp_path, ranks=1)
    assert toy.losses(compiled) == pytest.approx(toy.losses(plain))
    keys = ("example_flops", "example_note", "flops_per_sample", "mfu_note")
    assert [compiled[-1].value[key] for key in keys] == [plain[-1].value[key] for key in keys]
    assert compiled[-1].value["final_eval_loss"] == pytest.approx(plain[-1].value["final_eval_loss"])
    assert compiled[-1].value["example_flops"] == 2 * (8 * 16 + 16 * 2)


class Counted(toy.Classification):
    """Has an example; its evaluation tells networks apart that differ by little."""

    metrics = ("eval_loss",)

    def example(self, config: Any) -> toy.Batch:  # noqa: ARG002
        return torch.zeros(1, 8), torch.zeros(1, dtype=torch.int64)

    def evaluate(self, network: nn.Module, batches: Any, device: torch.device) -> dict[str, float]:  # noqa: ARG002
        return {"eval_loss": sum(float(self.loss(network, batch)) for batch in batches)}


@pytest.mark.parametrize(
    ("broken_on", "note"),
    [
        pytest.param(
            ("meta", "cpu"),
            "operations could not be counted: ValueError: not on meta (by shapes alone); "
            "operations could not be counted: ValueError: not on cpu",
            id="nowhere",
        ),
        pytest.param(("meta",), None, id="by values"),
    ],
)
def test_why_operations_could_not_be_counted(broken_on: tuple[str, ...], note: str | None) -> None:
    class Broken(Counted):
        def loss(self, network: nn.Module, batch: toy.Batch) -> Tensor:
            if batch[0].device.type in broken_on:
                raise ValueError(f"not on {batch[0].device.type}")
            return super().loss(network, batch)

    found = example_operations(Broken(), toy.network(), {}, Precision("fp32", torch.device("cpu")))
    assert found == (None if note else 320.0, note)


def test_channels_last(tmp_path: Path) -> None:
    settings = {"task": {"_target_": "test_loop.Formats"}, "memory_format": "channels_last", "max_steps": 1}
    network = {"_target_": "test_loop.convolution"}
    toy.train(toy.config(network=network, train_data={"_target_": "test_loop.Images"}, **settings), tmp_path)
    assert Formats.seen == [True, True]


class Images(toy.Points):
    """Points as images."""

    def __init__(self) -> None:
        super().__init__(16)

    def __getitem__(self, index: int) -> toy.Batch:
        inputs, label = super().__getitem__(index)
        return inputs.reshape(2, 2, 2), label


def convolution() -> nn.Module:
    """One layer."""
    return nn.Sequential(nn.Conv2d(2, 4, 2), nn.Flatten(), nn.Linear(4, 2))


class Formats(toy.Classification):
    """Keeps whether input and weight are channels last."""

    seen: list[bool]

    def loss(self, network: nn.Module, batch: toy.Batch) -> Tensor:
        tensors = (batch[0], next(network.parameters()))
        Formats.seen = [tensor.is_contiguous(memory_format=torch.channels_last) for tensor in tensors]
        return super().loss(network, batch)


def test_the_same_seed_gives_the_same_training(tmp_path: Path) -> None:
    settings = {"network": toy.node("network", dropout=0.3), "train_data": toy.node("Points", count=64, noise=0.1)}
    runs = [toy.train(toy.config(deterministic=True, seed=seed, **settings), tmp_path) for seed in (1, 1, 2)]
    sums = [run[-1].value["ranks"][0]["parameters_checksum"] for run in runs]
    assert toy.losses(runs[0]) == toy.losses(runs[1])
    assert sums[0] == sums[1] != sums[2]


# ---------------------------------------------------------------- figures


def test_figures_are_those_of_their_definitions(tmp_path: Path) -> None:
    settings = {"max_epochs": 4, "warmup_steps": 3, "checkpoint_freq": 7, "clip_grad": 1.0}
    finished = toy.train(toy.config(**settings), tmp_path)[-1].value
    raw, computing = finished["raw_train_time"], finished["pure_training_computing_time"]
    elsewhere = finished["eval_time"] + finished["checkpoint_time"]
    (rank,) = finished["ranks"]
    assert finished["p_whole"] == 2048 / raw
    assert finished["p_train"] == pytest.approx(2048 / (raw - elsewhere))
    assert finished["p_core"] == 2048 / computing
    assert finished["training_sequences_per_second"] == 256 / raw
    assert finished["steady_throughput"] == pytest.approx(29 * 64 / rank["steady_time"])
    assert finished["p_whole"] < finished["p_train"] < finished["p_core"]
    assert 0 < finished["step_time_p50"] <= finished["step_time_p90"] <= finished["step_time_p99"]
    # The rest is the start and the end of the measurement itself.
    assert raw / 2 < rank["step_time_sum"] + elsewhere <= raw
    assert rank["step_time_sum"] == pytest.approx(rank["compute_time"] + rank["data_wait"])
    assert finished["e2e_time"] > finished["init_time"] + raw
    assert finished["parameters"] == 8 * 16 + 16 + 16 * 2 + 2
    assert finished["flops_per_sample"] == 2 * (8 * 16 + 16 * 2)
    assert finished["mfu"] == pytest.approx(3 * 320 / 8 * finished["steady_throughput"] / 1e12)
    assert finished["peak_memory_kind"] == "host rss"
    assert 0.05 < finished["peak_memory"] < 16


def test_no_peak_no_mfu(tmp_path: Path) -> None:
    finished = toy.train(toy.config(hardware={"name": "X1", "peak_flops": {"bf16": 1e12}}), tmp_path)[-1].value
    assert (finished["mfu"], finished["mfu_note"]) == (None, "hardware X1 gives no peak for fp32")


@pytest.mark.parametrize(
    ("float8", "peaks", "expected"),
    [
        pytest.param(None, {"bf16": 1e12, "fp8": 2e12}, (0.9, None), id="bf16"),
        pytest.param("a.Block", {"bf16": 1e12, "fp8": 2e12}, (0.45, None), id="linear layers in float8"),
        pytest.param("a.Block", {"bf16": 1e12}, (None, "hardware X1 gives no peak for fp8"), id="no such peak"),
    ],
)
def test_mfu_in_float8(float8: str | None, peaks: dict[str, float], expected: tuple[float | None, str | None]) -> None:
    """Nothing is faster than the peak of the fastest format."""
    config = toy.config(hardware={"name": "X1", "peak_flops": peaks}, precision="amp_bf16", float8_modules=float8)
    engine: Any = SimpleNamespace(config=config, settings=Settings.read(config), device_name="X1", world=World())
    figures = mfu(engine, {}, {"per_unit": 1e9}, 300.0)
    assert (figures["mfu"], figures["mfu_note"]) == expected


def documented_fields() -> set[str]:
    """The fields in the FINISHED table of docs/perflog.md."""
    text = (toy.ROOT / "docs" / "perflog.md").read_text(encoding="utf-8")
    table = text.split("## FINISHED")[1].split("Each entry of `ranks`")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name.strip(" `") for cell in cells for name in cell.split(",")}


FIELDS = {
    "ordinary": {"max_epochs": 2},
    "one step, nothing evaluated": {"max_steps": 1, "eval_data": None, "eval_interval_epochs": None},
    "NaN": {"train_data": toy.node("Points", count=64, nan_at=0)},
    "target": {"target": REACHED},
    "fp16": {"precision": "amp_fp16", "max_steps": 1},
}


@pytest.mark.parametrize("settings", FIELDS.values(), ids=FIELDS.keys())
def test_finished_has_the_documented_fields(settings: dict[str, Any], tmp_path: Path) -> None:
    finished = toy.train(toy.config(**settings), tmp_path)[-1].value
    metrics = {"final_accuracy", "final_count", "final_inputs"}
    now_and_then = {"final_<metric>", "final_accuracy", "mfu_achieved", "comparisons"}
    now_and_then |= {"pipeline_bubble"}  # with a pipeline
    now_and_then |= {f"comparison_{name}" for name in ("time", "loss", "gradients")}  # with a vendor's own network
    assert finished.keys() - metrics == documented_fields() - now_and_then
    assert "final_accuracy" in finished
    text = (toy.ROOT / "docs" / "perflog.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in finished["ranks"][0])


def test_sample_data_of_a_full_case_has_no_target(tmp_path: Path) -> None:
    (tmp_path / ".flagperf-sample.json").write_text("{}")
    settings = {"target": {"metric": "count", "value": 1, "direction": "higher"}, "data_dir": str(tmp_path)}
    tiny = toy.train(toy.config(size="tiny", max_epochs=2, **settings), tmp_path)[-1].value
    full = toy.train(toy.config(size="full", max_epochs=2, **settings), tmp_path)[-1].value
    assert (tiny["sample_data"], tiny["converged"], tiny["target"]) == (True, True, settings["target"])
    assert (full["sample_data"], full["converged"], full["target"]) == (True, False, None)
    on = toy.train(toy.config(size="full", stop_on_sample_data=False, max_epochs=2, **settings), tmp_path)[-1].value
    ended = [(one["stop_reason"], one["epochs"]) for one in (tiny, full, on)]
    assert ended == [("target", 1), ("target_on_sample_data", 1), ("max_epochs", 2)]


@pytest.mark.parametrize(("size", "train", "reached"), [("full", 65, False), ("full", 64, True), ("tiny", 65, True)])
def test_other_data_than_the_full_cases_has_no_target(size: str, train: int, reached: bool, tmp_path: Path) -> None:
    """The data has 64 points; a full size of which it should have more neither stops at the target nor claims it."""
    target = {"metric": "count", "value": 1, "direction": "higher"}
    extent = {"unit": "points", "train": train, "eval": 19}
    config = toy.config(size=size, target=target, data={"extent": extent}, max_epochs=2)
    finished = toy.train(config, tmp_path)[-1].value
    assert (finished["converged"], finished["epochs"]) == (reached, 1 if reached else 2)
    assert finished["target"] == (target if reached else None)


# ---------------------------------------------------------------- what cannot be used

REFUSED = {
    "nothing ends it": ({"max_epochs": None}, "nothing would ever end this training"),
    "no evaluation data": ({"eval_data": None}, "there is no evaluation data"),
    "no such metric": (
        {"target": {"metric": "acc5", "value": 1, "direction": "higher"}},
        "the evaluation gives no such metric\n  where:   config.yaml\n  key:     target.metric\n"
        "  given:   acc5\n  allowed: accuracy, count, inputs",
    ),
    "no such further metric": (
        {"target": {"metric": "count", "value": 1, "direction": "higher", "also": {"acc5": 1}}},
        "the evaluation gives no such metric\n  where:   config.yaml\n  key:     target.also\n"
        "  given:   acc5\n  allowed: accuracy, count, inputs",
    ),
    "no such metric, of a task that does not say which it has": (
        {"target": {"metric": "acc5", "value": 1, "direction": "higher"}, "task": toy.node("Silent")},
        "the evaluation gives no such metric\n  where:   config.yaml\n  key:     target.metric\n"
        "  given:   acc5\n  allowed: accuracy, count, inputs",
    ),
    "too little data": (
        {"train_data": toy.node("Points", count=31), "gradient_accumulation_steps": 4},
        "the training data is too small for one step",
    ),
    "other classes": (
        {"train_data": toy.node("labelled", classes="abc"), "eval_data": toy.node("labelled", classes="acb")},
        "training and evaluation data have different classes\n  where:   config.yaml\n  key:     data_dir\n"
        "  given:   the same classes in another order",
    ),
    "no module to recompute": ({"activation_checkpointing": True}, "which modules recompute"),
    "no such module": (
        {"activation_checkpointing": True, "checkpoint_modules": "torch.nn.Conv2d"},
        "the network has no modules of this class",
    ),
    "no such class": ({"network": {"_target_": "torch.nn.Linnear"}}, "no such class or function"),
    "no such device": ({"vendor": {"device": "xyz", "plugin": None}}, "torch finds no such device"),
    "no such plug-in": ({"vendor": {"device": "npu", "plugin": "torch_xyz"}}, "plug-in module cannot be imported"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        toy.train(toy.config(**settings), tmp_path)
    assert message in str(refused.value)


def test_one_path_for_training_and_evaluation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "points").mkdir()
    paths = {"data_dir": str(tmp_path), "train_path": "points", "eval_path": "points"}
    with pytest.raises(ConfigError, match=r"^training and evaluation use the same data\n"):
        toy.train(toy.config(**paths), tmp_path)
    assert toy.train(toy.config(**paths, synthetic=True), tmp_path)[-1].value["stop_reason"] == "max_epochs"


@pytest.mark.parametrize(("task", "logged"), [("Classification", 0), ("Silent", 8)])
def test_a_wrong_metric_is_refused_before_the_first_step(task: str, logged: int, tmp_path: Path) -> None:
    target = {"metric": "acc5", "value": 1, "direction": "higher"}
    with pytest.raises(ConfigError):
        toy.train(toy.config(target=target, task=toy.node(task)), tmp_path)
    assert len(toy.values(toy.read_log(tmp_path / "log0"), "STEP_END")) == logged
