"""The limits of phases on many hosts, and the message if several hosts fail in one phase."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from example import example_job
from rich.console import Console

from flagperf.config.schema.limits import Deadlines
from flagperf.contract.outcome import Failure, refusal
from flagperf.errors import ConfigError, FlagperfError, HostError, SeveralErrors
from flagperf.run.fan_out import TOGETHER, FanOut, combined_error
from flagperf.run.node_run import NodeRun
from flagperf.run.progress import Progress
from flagperf.run.times import PhaseTimes

ONE, TWO = HostError("a", "is off", advice="switch it on"), HostError("b", "is away")
WRONG = ConfigError("more ranks than devices", where="host c", key="nproc", given=8)
BUG, FULL = ZeroDivisionError("a bug"), OSError(28, "No space left on device")
BOTH = "2 hosts cannot be used, in phase 'check':\na: is off\n  do:      switch it on\nb: is away"


@pytest.mark.parametrize(
    ("errors", "text", "exit_code"),
    [
        pytest.param([ONE], str(ONE), 3, id="one"),
        pytest.param([ONE, TWO], BOTH, 3, id="two"),
        pytest.param([WRONG, ONE], f"2 hosts cannot be used, in phase 'check':\n{WRONG}\n{ONE}", 2, id="two kinds"),
        pytest.param(
            [ONE, TWO, HostError("c", "is off", advice="switch it on")],
            "3 hosts cannot be used, in phase 'check':\na, c: is off\n  do:      switch it on\nb: is away",
            3,
            id="three, two alike",
        ),
        pytest.param([ONE, HostError("a", "is off", advice="switch it on")], str(ONE), 3, id="the same twice"),
        pytest.param([ONE, BUG, TWO], str(BUG), None, id="a bug among them"),
        pytest.param([ONE, TWO, FULL], str(FULL), None, id="the launcher's disk among them"),
    ],
)
def test_errors_of_a_phase(errors: list[BaseException], text: str, exit_code: int | None) -> None:
    error = combined_error("check", errors)
    assert str(error) == text
    assert (error.exit_code if isinstance(error, FlagperfError) else None) == exit_code


def test_the_failure_of_a_round_names_all() -> None:
    assert refusal(SeveralErrors("2 hosts cannot be used, in phase 'check'", [ONE, TWO])) == Failure(BOTH)


def fan_out(hosts: int) -> FanOut:
    """Phases on hosts that have only names, times and moved files."""
    nodes = [
        SimpleNamespace(host=f"n{rank}", rank=rank, times=PhaseTimes(), shown_phases=(), transport=None)
        for rank in range(hosts)
    ]
    progress = Progress(example_job(), Console(quiet=True))
    return FanOut(cast("list[NodeRun]", nodes), Deadlines(15, 300, 1800, 300, 30), progress)


@pytest.mark.parametrize(
    ("hosts", "seconds"),
    [(1, 60), (8, 60), (9, 120), pytest.param(1000, 7500, id="all through one jump host, eight at a time")],
)
def test_the_limit_of_logins_grows_with_the_hosts(hosts: int, seconds: float) -> None:
    made = fan_out(hosts)
    assert (made.limit("connect"), made.limit("check"), made.limit("send")) == (seconds, 120, None)


@pytest.mark.parametrize(
    ("phase", "together"),
    [
        *((phase, TOGETHER) for phase in ("check", "send", "start", "collect", "clean")),
        *((phase, 3 * TOGETHER) for phase in ("connect", "image", "stop")),
    ],
)
def test_a_part_of_many_hosts_is_worked_on_at_a_time(phase: str, together: int) -> None:
    at_work = most = done = 0

    async def action(_: NodeRun) -> None:
        nonlocal at_work, most, done
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.001)
        at_work -= 1
        done += 1

    asyncio.run(fan_out(3 * TOGETHER).on_all(phase, action))
    assert (most, done) == (together, 3 * TOGETHER)
