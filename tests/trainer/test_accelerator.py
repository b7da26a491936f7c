"""What only a device shows: events, streams and pinned memory. The rest of the trainer is the same code as on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import toy

pytestmark = pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs a GPU")

BACKENDS = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl", "mlu": "cncl", "musa": "mccl", "sdaa": "tccl"}


def on_device(**words: Any) -> dict[str, Any]:
    """The configuration for the accelerator that is here."""
    kind = torch.accelerator.current_accelerator().type
    vendor = {"name": kind, "device": kind, "backend": BACKENDS[kind], "plugin": None}
    return toy.config(vendor=vendor, **words)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "amp_bf16", "amp_fp16"])
@pytest.mark.parametrize("log_freq", [1, 3, 100])
def test_trains_as_a_cpu_does(precision: str, log_freq: int, tmp_path: Path) -> None:
    words = {"max_epochs": 3, "precision": precision, "clip_grad": 1.0, "log_freq": log_freq, "num_workers": 1}
    expected = toy.train(toy.config(**words | {"precision": "fp32"}), tmp_path)
    events = toy.train(on_device(**words), tmp_path)
    close = 1e-4 if precision == "fp32" else 0.05
    assert toy.losses(events) == pytest.approx(toy.losses(expected), rel=close)
    assert [value["step"] for value in toy.values(events, "STEP_END")] == [
        value["step"] for value in toy.values(expected, "STEP_END")
    ]


@pytest.mark.parametrize(
    "words", [{"synthetic": True}, {"ema": {"decay": 0.9, "every": 2}}], ids=["held batches", "average of the weights"]
)
def test_options_of_the_loop(words: dict[str, Any], tmp_path: Path) -> None:
    words = {**words, "max_epochs": 3, "num_workers": 1}
    expected = toy.train(toy.config(**words), tmp_path)
    events = toy.train(on_device(**words), tmp_path)
    assert toy.losses(events) == pytest.approx(toy.losses(expected), rel=1e-4)
    assert events[-1].value["final_accuracy"] == expected[-1].value["final_accuracy"]


def test_figures_of_the_device(tmp_path: Path) -> None:
    finished = toy.train(on_device(max_epochs=30, checkpoint_freq=50), tmp_path)[-1].value
    (rank,) = finished["ranks"]
    elsewhere = finished["eval_time"] + finished["checkpoint_time"]
    assert (finished["clock"], finished["peak_memory_kind"]) == ("device events", "device")
    assert finished["device_name"] == torch.get_device_module().get_device_name()
    assert rank["step_time_sum"] + elsewhere == pytest.approx(finished["raw_train_time"], rel=0.05)


def test_loop_never_synchronizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the device nor a stream is waited for in a training that logs each step and evaluates nothing."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("synchronized")

    monkeypatch.setattr(torch.accelerator, "synchronize", refuse)
    monkeypatch.setattr(torch.get_device_module(), "synchronize", refuse)
    monkeypatch.setattr(torch.Stream, "synchronize", refuse)
    for words in ({}, {"synthetic": True}):
        events = toy.train(on_device(max_epochs=2, eval_interval_epochs=None, **words), tmp_path)
        assert len(toy.losses(events)) == 16


def test_nan_is_seen_a_step_later(tmp_path: Path) -> None:
    data = toy.node("Points", count=64, nan_at=0)
    finished = toy.train(on_device(train_data=data, max_epochs=9), tmp_path)[-1].value
    first = next(step for step, loss in enumerate(toy.losses(toy.train(toy.config(), tmp_path)), 1) if loss)
    assert finished["stop_reason"] == "non_finite_loss"
    assert finished["global_steps"] >= first


def test_resumed_equals_uninterrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    words = {"max_epochs": None, "max_steps": 20, "deterministic": True, "network": toy.node("network", dropout=0.3)}
    whole = toy.train(on_device(**words), tmp_path)
    toy.train(on_device(**words | {"max_steps": 11}, checkpoint_freq=11), tmp_path)
    resumed = toy.train(on_device(**words, resume=str(tmp_path / "checkpoint")), tmp_path)
    assert toy.losses(resumed) == toy.losses(whole)[11:]
