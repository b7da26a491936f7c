"""Slurm's commands: one that has just ended can still be killed."""

from __future__ import annotations

import os
import signal
import time

import pytest

from flagperf.schedulers.slurm.commands import kill, spawn


@pytest.mark.asyncio
async def test_a_command_that_ended_unseen_is_killed_without_an_error() -> None:
    process = await spawn("sleep", "60")
    os.kill(process.pid, signal.SIGTERM)
    time.sleep(0.3)  # asyncio's loop stands still meanwhile: the process is gone, and asyncio does not know it
    assert process.returncode is None
    kill(process)
    assert await process.wait() == -signal.SIGTERM
