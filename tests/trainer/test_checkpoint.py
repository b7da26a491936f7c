"""A resumed training goes on exactly as one that was not interrupted; a checkpoint is whole or not there."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import toy

from flagperf.errors import ConfigError
from flagperf.trainer.pytorch import checkpoint

ADAM = {"_target_": "torch.optim.AdamW", "lr": 0.01}
COSINE = {"_target_": "torch.optim.lr_scheduler.CosineAnnealingLR", "T_max": 20}
RANDOM = {
    "network": toy.node("network", dropout=0.3),
    "train_data": toy.node("Points", count=64, noise=0.5),
    "optimizer": ADAM,
    "lr_scheduler": COSINE,
}
# 8 steps an epoch; what is uninterrupted has 20 steps.
INTERRUPTED = {
    "in the middle of an epoch": ({}, 5),
    "at the end of an epoch": ({}, 8),
    "in the second epoch": ({}, 13),
    "with processes loading": ({"num_workers": 2}, 5),
    "in the middle of a log interval": ({"log_freq": 3, "num_workers": 1}, 10),
    "accumulating": ({"gradient_accumulation_steps": 2}, 6),
    "schedule by epoch": ({"lr_interval": "epoch"}, 8),
    "evaluating by steps": ({"eval_interval_steps": 5}, 5),
    "averaging the weights": ({"ema": {"decay": 0.8, "every": 2}, "eval_interval_steps": 3}, 5),
    "fp16": ({"precision": "amp_fp16", "max_steps": 12}, 5),
}


@pytest.mark.parametrize(("settings", "at"), INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_resumed_equals_uninterrupted(
    settings: dict[str, Any], at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    settings = {"max_epochs": None, "max_steps": 20, **RANDOM, **settings}
    whole = toy.train(toy.config(**settings), tmp_path)
    toy.train(toy.config(**settings | {"max_steps": at}, checkpoint_freq=at), tmp_path)
    resumed = toy.train(toy.config(**settings, resume=str(tmp_path / "checkpoint")), tmp_path)

    def after(name: str) -> list[dict[str, Any]]:
        """What was logged later than the interruption, without times."""
        timed = ("throughput", "step_time", "data_wait", "time")
        later = (value for value in toy.values(whole, name) if value["step"] > at)
        return [{key: number for key, number in value.items() if key not in timed} for value in later]

    for name in ("STEP_END", "EVALUATE"):
        given, wanted = toy.values(resumed, name), after(name)
        assert [{key: value[key] for key in wanted[0]} for value in given] == wanted
    ended, finished = whole[-1].value, resumed[-1].value
    for key in ("global_steps", "global_samples", "epochs", "stop_reason", "final_loss", "final_accuracy"):
        assert finished[key] == ended[key], key
    assert finished["resumed_from_step"] == at
    assert finished["num_trained_samples"] == ended["num_trained_samples"] // settings["max_steps"] * (
        settings["max_steps"] - at
    )
    assert finished["ranks"][0]["parameters_checksum"] == ended["ranks"][0]["parameters_checksum"]


def test_nothing_left_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    settings = {"max_epochs": None, "max_steps": 4, "checkpoint_freq": 4}
    toy.train(toy.config(**settings), tmp_path)
    finished = toy.train(toy.config(**settings, resume=str(tmp_path / "checkpoint")), tmp_path)[-1].value
    assert (finished["global_steps"], finished["num_trained_samples"], finished["p_whole"]) == (4, 0, None)


def test_two_are_kept_beside_the_log_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLAGPERF_CHECKPOINT_DIR")
    monkeypatch.setenv("FLAGPERF_LOG_DIR", str(tmp_path / "round1" / "host_noderank0"))
    events = toy.train(toy.config(checkpoint_freq=2, max_steps=7, max_epochs=None), tmp_path)
    folder = tmp_path / "round1" / "checkpoint"
    assert sorted(path.name for path in folder.iterdir()) == ["step000000004.pt", "step000000006.pt"]
    assert events[-1].value["checkpoint_time"] > 0


def test_not_after_a_loss_that_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    data = toy.node("Points", count=64, nan_at=0)
    toy.train(toy.config(train_data=data, checkpoint_freq=8, log_freq=100), tmp_path)
    assert not list(tmp_path.glob("checkpoint/*.pt"))


def save_for_ever(folder: Path, begun: Any) -> None:
    state = {"weights": torch.ones(4_000_000)}
    begun.set()
    while True:
        checkpoint.save(folder, 2, state)


@pytest.mark.parametrize("pause", [0.01, 0.03, 0.1])
def test_killed_while_writing(pause: float, tmp_path: Path) -> None:
    """What lies under a checkpoint's name is whole at any moment."""
    checkpoint.save(tmp_path, 1, {"weights": torch.ones(3)})
    fork = multiprocessing.get_context("fork")
    begun = fork.Event()
    writer = fork.Process(target=save_for_ever, args=(tmp_path, begun))
    writer.start()
    assert begun.wait(20)
    time.sleep(pause)
    writer.kill()
    writer.join()
    assert (tmp_path / "step000000001.pt").is_file()
    for path in tmp_path.glob("*.pt"):
        assert torch.load(path)["weights"].min() == 1


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        toy.train(toy.config(resume=str(tmp_path)), tmp_path)
    assert str(refused.value) == (
        "no checkpoint to resume from\n"
        f"  where:   {tmp_path}\n"
        "  key:     resume\n"
        "  allowed: a folder with step<N>.pt files, readable on every node\n"
        "  do:      set checkpoint_freq in the run that is to be resumed later"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train_batch_size", 4),
        ("seed", 5),
        ("case", "other"),
        ("revision", 2),
        ("precision", "amp_bf16"),
        ("ema", {"decay": 0.9, "every": 1}),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_of_another_training(key: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    before = toy.config(checkpoint_freq=2, max_steps=2)
    toy.train(before, tmp_path)
    with pytest.raises(ConfigError) as refused:
        toy.train(toy.config(**{key: value}, resume=str(tmp_path / "checkpoint")), tmp_path)
    assert str(refused.value) == (
        "the checkpoint belongs to another training\n"
        f"  where:   {tmp_path}/checkpoint/step000000002.pt\n"
        f"  key:     {key}\n"
        f"  given:   {value}\n"
        f"  allowed: {before[key]!r}"
    )
