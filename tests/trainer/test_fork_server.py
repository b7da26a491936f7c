"""Ranks train in forks of a process in which autograd never ran, whatever the test before them computed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import accelerator
import pytest
import toy

BACKWARD_BEFORE_A_FORK = """
import sys
from functools import partial
from pathlib import Path
import torch, toy

if __name__ == "__main__":
    toy.start_fork_server()
    import torch_acme  # a device: autograd starts a thread for it
    torch.ones(2, requires_grad=True).sum().backward()
    train = partial(toy.train, toy.config(max_steps=2, num_workers=0))
    (events,) = toy.fork_ranks(train, Path(sys.argv[1], "server"), ranks=1)
    print(events[-1].event)
    try:
        toy.fork_here(train, Path(sys.argv[1], "here"), ranks=1)
    except AssertionError as error:
        print("Unable to handle autograd's threading" in str(error))
"""


@pytest.mark.slow
def test_after_a_backward(tmp_path: Path) -> None:
    """In a process whose own forks cannot compute."""
    command = [sys.executable, "-W", "ignore", "-c", BACKWARD_BEFORE_A_FORK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=accelerator.environment(), check=False)
    assert done.stdout == "FINISHED\nTrue\n", done.stderr


def surroundings(name: str, folder: Path) -> tuple[Any, ...]:
    warnings.warn("of a rank", FutureWarning, stacklevel=1)
    return name, os.environ["OF_THE_TEST"], Path.cwd(), folder.name


@pytest.mark.filterwarnings("ignore:of a rank:FutureWarning")
def test_ranks_have_the_surroundings_of_their_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_TEST", "yes")
    monkeypatch.chdir(tmp_path)
    found = toy.fork_ranks(partial(surroundings, "a"), tmp_path)
    assert found == [("a", "yes", tmp_path, f"rank{rank}") for rank in range(2)]


def test_an_interrupted_request_is_not_answered_to_the_next(tmp_path: Path) -> None:
    def end(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, end)
    try:
        with pytest.raises(TimeoutError):
            toy.fork_ranks(partial(signal_and_sleep, os.getpid()), tmp_path, ranks=1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert toy.fork_ranks(lambda folder: folder.name, tmp_path) == ["rank0", "rank1"]


def signal_and_sleep(process: int, _: Path) -> None:
    os.kill(process, signal.SIGUSR1)
    time.sleep(600)
