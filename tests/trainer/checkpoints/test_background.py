"""Checkpoints that a thread writes while the training goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from torch import nn

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


# ---------------------------------------------------------------- killed while the thread writes

FIRST, SECOND, KILLED, LAST = 5, 10, 12, 15  # steps: two checkpoints, the kill, the end
SHARDED = {"_target_": "flagperf.trainer.pytorch.parallel.Sharded", "mesh": {"dp_shard": 2}, "blocks": ["Linear"]}
STRATEGIES: dict[str, tuple[int, dict[str, Any]]] = {  # ending of the checkpoint → ranks, and settings
    "pt": (1, {}),
    "dcp": (2, {"nproc": 2, "train_batch_size": 4, "parallel": SHARDED}),
}


class Killed(toy.Classification):
    """The first evaluation kills rank 0, where a thread writes the checkpoint `step`, its second in the folder.

    This thread stops at the hash of the checkpoint: a pipe lies in its place, and nobody reads from it.
    """

    def __init__(self, folder: str, step: int) -> None:
        self.folder, self.name = Path(folder), f"step{step:09}"
        found = [path.name for path in self.folder.glob("step*.sha256*")]
        self.kills = os.environ["RANK"] == "0" and len(found) == 1
        if self.kills:
            os.mkfifo(self.folder / f"{self.name}.sha256.partial")

    def evaluate(self, network: nn.Module, batches: Iterable[toy.Batch], device: torch.device) -> dict[str, Any]:
        if self.kills:
            while not (self.folder / f"{self.name}.partial").exists():  # the thread has not begun
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().evaluate(network, batches, device)


def train_each(configs: Iterable[dict[str, Any]], folder: Path) -> list[list[float]]:
    """The losses of one training after the other."""
    return [toy.losses(toy.train(config, folder)) for config in configs]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("ending", STRATEGIES)
def test_a_rank_is_killed_while_its_thread_writes(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The training goes on from the checkpoint before, as without the kill, and writes the lost one again."""
    folder = tmp_path / "checkpoint"
    monkeypatch.setenv("FLAGPERF_CHECKPOINT_DIR", str(folder))
    ranks, strategy = STRATEGIES[ending]
    settings = {"max_epochs": None, "max_steps": LAST, "optimizer": {"_target_": "torch.optim.AdamW"}, **strategy}
    settings["task"] = {"_target_": "test_background.Killed", "folder": str(folder), "step": SECOND}
    saving = {**settings, "checkpoint_freq": FIRST, "checkpoint_in_background": True}
    first, whole = toy.config(**saving | {"max_steps": FIRST}), toy.config(**settings)
    resumed = toy.config(**saving, resume=str(folder))
    killed = {**resumed, "eval_interval_steps": KILLED}
    with pytest.raises(AssertionError, match="rank 0 ended with -9"):
        toy.fork_ranks(partial(train_each, [first, killed]), tmp_path / "killed", ranks)
    assert [path.name for path in folder.glob("step*.sha256")] == [f"step{FIRST:09}.{ending}.sha256"]

    pipe = folder / f"step{SECOND:09}.sha256.partial"
    pipe.unlink()
    pipe.touch()  # as on a disk
    for later, all_losses in toy.fork_ranks(partial(train_each, [resumed, whole]), tmp_path / "resumed", ranks):
        assert (len(later), later) == (LAST - FIRST, all_losses[FIRST:])
    names = [path.name for path in sorted(folder.iterdir())]
    assert names == [f"step{step:09}.{ending}{more}" for step in (SECOND, LAST) for more in ("", ".sha256")]
