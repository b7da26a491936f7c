"""Checkpoints that a thread writes while the training goes on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import toy

from flagperf.trainer.pytorch.background import Background
from flagperf.trainer.pytorch.by_version import host_copies


def test_the_copy_does_not_change_with_the_training() -> None:
    background, go_on, written = Background(host_copies()), threading.Event(), []
    state = {"weights": torch.zeros(4), "groups": [{"lr": 0.1}]}

    def write(copy: Any) -> None:
        assert go_on.wait(60)
        written.append(copy)

    background.write(state, write)
    state["weights"] += 1
    state["groups"][0]["lr"] = 0.2  # type: ignore[index]
    go_on.set()
    background.finish()
    ((copy,),) = (written,)
    assert (copy["weights"].tolist(), copy["groups"]) == ([0.0] * 4, [{"lr": 0.1}])


@pytest.mark.parametrize("end", ["write", "finish"], ids=["at the next one", "at the end"])
def test_an_error_of_the_thread_ends_the_training(end: str) -> None:
    background = Background(host_copies())
    background.write({}, lambda _: Path("/none").stat())
    with pytest.raises(FileNotFoundError):
        background.write({}, print) if end == "write" else background.finish()
    background.finish()


def test_a_training_resumes_from_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trained on while the thread wrote, and equals a training without an interruption."""
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    settings = {"max_epochs": None, "max_steps": 8, "log_freq": 1, "optimizer": {"_target_": "torch.optim.AdamW"}}
    settings |= {"checkpoint_freq": 5, "checkpoint_in_background": True}
    whole = toy.train(toy.config(**settings), tmp_path)
    assert [path.name for path in sorted((tmp_path / "checkpoint").glob("*.pt"))] == ["step000000005.pt"]
    resumed = toy.train(toy.config(**settings, resume=str(tmp_path / "checkpoint")), tmp_path)
    assert toy.losses(resumed) == toy.losses(whole)[5:]
    first, second = (events[-1].value["ranks"][0] for events in (whole, resumed))
    assert first["parameters_checksum"] == second["parameters_checksum"]
    assert whole[-1].value["checkpoint_time"] > 0
