"""Stacks of ranks that hang: written by real processes, and read from their logs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from example import PYTORCH

from flagperf.contract.command import Command
from flagperf.hosts.local import LocalTransport
from flagperf.run.stacks import last_traceback, stack, stuck, write_stacks

DUMP = """\
[PerfLog] ...
Fatal Python error: Aborted

Thread 0x00007f336721d6c0 (most recent call first):
  File "/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f3367c9db80 (most recent call first):
{frames}

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)
"""
IN_DATA = (
    '  File "/cases/glm/data.py", line 7 in __getitem__\n  File "/flagperf/trainer/pytorch/loop.py", line 80 in run'
)
IN_COLLECTIVE = (
    '  File "/site-packages/torch/distributed/distributed_c10d.py", line 2546 in all_reduce\n'
    '  File "/flagperf/trainer/pytorch/loop.py", line 81 in run'
)
IN_BACKWARD = (
    '  File "/site-packages/torch/autograd/graph.py", line 800 in _engine_run_backward\n'
    '  File "/flagperf/trainer/pytorch/loop.py", line 82 in run'
)
DATA, COLLECTIVE, BACKWARD = (DUMP.format(frames=frames) for frames in (IN_DATA, IN_COLLECTIVE, IN_BACKWARD))


def test_stack_is_that_of_the_main_thread() -> None:
    assert stack(DATA) == tuple(IN_DATA.splitlines())
    assert stack("no dump\n") == ()


FEEDER = """\
Traceback (most recent call last):
  File "/lib/python3.11/multiprocessing/queues.py", line 244, in _feed
    obj = _ForkingPickler.dumps(obj)
OSError: AF_UNIX path too long
"""


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        pytest.param("step 1\n" + FEEDER + DATA, FEEDER.splitlines()[1:], id="before the stack of a hang"),
        pytest.param(FEEDER, FEEDER.splitlines()[1:], id="alone"),
        pytest.param(
            FEEDER.replace("AF_UNIX path", "first") + "x\n" + FEEDER + "y\n", FEEDER.splitlines()[1:], id="last"
        ),
        pytest.param(DATA, [], id="none"),
        pytest.param("Traceback (most recent call last):", [], id="cut off"),
    ],
)
def test_the_last_traceback_of_a_log(log: str, lines: list[str]) -> None:
    assert last_traceback(log) == tuple(lines)


@pytest.mark.parametrize(
    ("logs", "rank"),
    [
        pytest.param({0: COLLECTIVE, 1: DATA}, 1, id="the others are in a collective"),
        pytest.param({0: DATA, 1: BACKWARD, 2: COLLECTIVE}, 0, id="or in the backward pass"),
        pytest.param({0: COLLECTIVE, 1: "frozen\n"}, 1, id="a frozen rank writes none"),
        pytest.param({0: COLLECTIVE, 1: COLLECTIVE}, None, id="all wait"),
        pytest.param({0: DATA, 1: DATA}, None, id="none waits"),
        pytest.param({0: "", 1: ""}, None, id="no stacks at all"),
    ],
)
def test_stuck(logs: dict[int, str], rank: int | None) -> None:
    assert stuck(logs, PYTORCH.failures.waiting) == rank


RANK = """
import os, subprocess, sys, time
subprocess.Popen(["sleep", "4720"])  # has the rank's environment
print("ready", flush=True)
def hang(): time.sleep(4720)
hang()
"""


@pytest.mark.asyncio
async def test_real_ranks_write_their_stacks_and_nobody_else_is_hit(tmp_path: Path) -> None:
    logs = tmp_path / "a b"
    logs.mkdir()
    env = {"FLAGPERF_LOG_DIR": str(logs), "PYTHONFAULTHANDLER": "1"}
    log = tmp_path / "log"
    async with LocalTransport("here") as here:
        words = ("env", "LOCAL_RANK=0", sys.executable, "-c", RANK)
        rank = await here.start(Command(words, env), log=str(log), grace=1)
        launcher = await here.start(Command(("sleep", "4721"), env), log=os.devnull, grace=1)
        while "ready" not in log.read_text():
            await asyncio.sleep(0.02)
        await write_stacks(here, str(logs))
        assert await rank.wait() == -6
        assert stack(log.read_text()), log.read_text()
        assert stack(log.read_text())[0] == '  File "<string>", line 5 in hang'
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(launcher.wait()), 0.1)
